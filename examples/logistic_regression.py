"""Logistic regression as an estimator of scikit-learn: the loss in NumPy, its gradient from fgrad.

    python examples/logistic_regression.py

fits scikit-learn's bundled data on breast cancer inside a pipeline with cross-validation, and compares the
coefficients with those of scikit-learn's own class. The estimator passes scikit-learn's `check_estimator`.
"""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
from scipy.optimize import minimize
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.datasets import load_breast_cancer
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import _check_sample_weight, check_is_fitted, validate_data

import fgrad as fg


class GradientLogisticRegression(ClassifierMixin, BaseEstimator):
    """Multinomial logistic regression with a quadratic penalty on the coefficients.

    Minimized is the cross-entropy, summed over the samples, plus `sum(coef**2) / (2 * C)`.

    Args:
        C: the inverse strength of the penalty.
        max_iter: the most iterations of the minimizer, L-BFGS.
        tol: it stops where no component of the gradient per sample is larger.

    Attributes:
        classes_: the labels, sorted.
        coef_, intercept_: one row, and one number, for each class.
        n_iter_: how many iterations were made.
    """

    def __init__(self, C: float = 1.0, max_iter: int = 1000, tol: float = 1e-8) -> None:  # noqa: N803  # sklearn's name
        self.C = C
        self.max_iter = max_iter
        self.tol = tol

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> GradientLogisticRegression:  # noqa: N803
        """Find the coefficients for samples, one per row, and their labels."""
        X, y = validate_data(self, X, y, dtype=np.float64)  # noqa: N806
        check_classification_targets(y)
        weight = _check_sample_weight(sample_weight, X)
        self.classes_, labels = np.unique(y, return_inverse=True)
        if len(self.classes_) < 2:
            raise ValueError("Classifier can't train when only one class is present.")
        total, shape = np.sum(weight), (X.shape[1] + 1, len(self.classes_))

        @fg.value_and_grad
        def loss(flat: Any) -> Any:
            params = np.reshape(flat, shape)
            scores = X @ params[:-1] + params[-1]
            right = np.take_along_axis(scores, labels[:, np.newaxis], axis=1)[:, 0]
            entropy = np.sum(weight * (np.logaddexp.reduce(scores, axis=1) - right))
            return (entropy + np.sum(params[:-1] ** 2) / (2 * self.C)) / total

        found = minimize(
            loss,
            np.zeros(shape[0] * shape[1]),
            jac=True,
            method="L-BFGS-B",
            options={"maxiter": self.max_iter, "gtol": self.tol, "ftol": 1e-15, "maxfun": 10 * self.max_iter},
        )
        if found.nit >= self.max_iter:
            warnings.warn("not converged: raise max_iter or scale the data", ConvergenceWarning, stacklevel=2)
        params = found.x.reshape(shape)
        self.coef_, self.intercept_ = params[:-1].T, params[-1]
        self.n_iter_ = max(1, found.nit)
        return self

    def decision_function(self, X: Any) -> np.ndarray:  # noqa: N803
        """Return a number for each sample and class; for two classes one number, positive for the second."""
        check_is_fitted(self)
        X = validate_data(self, X, dtype=np.float64, reset=False)  # noqa: N806
        scores = X @ self.coef_.T + self.intercept_
        return scores[:, 1] - scores[:, 0] if len(self.classes_) == 2 else scores

    def predict_log_proba(self, X: Any) -> np.ndarray:  # noqa: N803
        """Return the logarithm of the probability of each class for each sample."""
        scores = self.decision_function(X)
        if len(self.classes_) == 2:
            scores = np.stack([np.zeros_like(scores), scores], axis=1)
        return scores - np.logaddexp.reduce(scores, axis=1, keepdims=True)

    def predict_proba(self, X: Any) -> np.ndarray:  # noqa: N803
        """Return the probability of each class for each sample."""
        return np.exp(self.predict_log_proba(X))

    def predict(self, X: Any) -> np.ndarray:  # noqa: N803
        """Return the most probable label for each sample."""
        best = np.argmax(self.predict_log_proba(X), axis=1)
        return self.classes_[best]


def main() -> dict[str, Any]:
    """Fit, compare and print."""
    X, y = load_breast_cancer(return_X_y=True)  # noqa: N806
    model = make_pipeline(StandardScaler(), GradientLogisticRegression(C=0.5))
    accuracy = float(np.mean(cross_val_score(model, X, y, cv=5)))
    ours = model.fit(X, y)[-1]
    # scikit-learn has one row for two classes, the difference of ours; a penalty of the difference of two rows
    # that are opposite is twice that of each.
    theirs = LogisticRegression(C=2 * 0.5, tol=1e-10, max_iter=10_000).fit(StandardScaler().fit_transform(X), y)
    coefficients = ours.coef_[1] - ours.coef_[0]
    difference = float(np.max(np.abs(coefficients - theirs.coef_[0])))
    print(f"accuracy            {accuracy:.1%} in five-fold cross-validation")
    print(f"iterations          {ours.n_iter_}")
    print(f"coefficients        within {difference:.0e} of scikit-learn's own")
    return {"accuracy": accuracy, "difference": difference, "coefficients": coefficients}


if __name__ == "__main__":
    main()
