// Fit a decay to the points of the standard input: a time and a value in each line.

#include <cstdio>
#include <iostream>
#include <stdexcept>
#include <vector>

#include <Eigen/Dense>

#include "decay.h"

constexpr int Count = 40;  // the points for which the function was exported

using Params = Eigen::Vector3d;
using Points = Eigen::Matrix<double, Count, 2, Eigen::RowMajor>;  // arrays are in C order
using Hessian = Eigen::Matrix<double, 3, 3, Eigen::RowMajor>;

// The loss with its derivatives: numbers, which Eigen's maps use as a vector and a matrix without a copy.
struct Loss {
    double numbers[1 + 3 + 3 * 3];
    double value() const { return numbers[0]; }
    Eigen::Map<const Params> gradient() const { return Eigen::Map<const Params>(numbers + 1); }
    Eigen::Map<const Hessian> hessian() const { return Eigen::Map<const Hessian>(numbers + 4); }
};

Loss loss_at(const Params &params, const Eigen::Map<Points> &points, void *workspace) {
    Loss made;
    double *to = made.numbers;
    if (decay(params.data(), points.data(), to, to + 1, to + 4, workspace))
        throw std::domain_error("the parameters have no loss");
    return made;
}

// Newton steps, shortened by a damping that is larger after each step that does not lead down.
Params fitted(Params params, const Eigen::Map<Points> &points, void *workspace) {
    Loss now = loss_at(params, points, workspace);
    for (double damping = 1e-2; now.gradient().norm() > 1e-12 && damping < 1e12;) {
        Eigen::LDLT<Eigen::Matrix3d> factors(now.hessian() + damping * Hessian::Identity());
        Params next = params - factors.solve(now.gradient());
        Loss then = loss_at(next, points, workspace);
        bool is_better = factors.isPositive() && then.value() < now.value();
        damping *= is_better ? 0.1 : 10.0;
        if (is_better) {
            params = next;
            now = then;
        }
    }
    return params;
}

int main() {
    std::vector<double> numbers(2 * Count);
    Eigen::Map<Points> points(numbers.data());
    for (int row = 0; row < Count; row++)
        if (!(std::cin >> points(row, 0) >> points(row, 1))) return 1;
    std::vector<char> workspace(decay_workspace_bytes());
    Params found = fitted(Params(1, 1, 0), points, workspace.data());
    std::printf("%.12g %.12g %.12g\n", found[0], found[1], found[2]);
}
