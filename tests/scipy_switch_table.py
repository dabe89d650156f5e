"""What SciPy's own functions do with traced tensors where the environment has `SCIPY_ARRAY_API=1`.

    python tests/scipy_switch_table.py      prints the table of `docs/how-to/scipy-array-api.md`

SciPy reads the variable when it is imported, so the calls run in a process of their own, which this file starts. A call
is right if the value is that of the same call on plain arrays, and the gradient that of finite differences.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import subprocess
import sys
import traceback
import warnings
from typing import Any

POINTS = {
    "x": [0.31, 1.24, 0.77, 2.13, 1.62, 0.45, 2.71, 1.05],
    "y": [0.82, 0.35, 1.91, 1.17, 0.59, 2.26, 1.43, 0.24],
    "z": [-1.3, 0.42, 2.1, -0.75, 1.6, -0.2, 0.9, -2.4],
    "u": [0.12, 0.81, 0.35, 0.67, 0.52, 0.28, 0.91, 0.44],
    "a": [[0.9, 0.2, -0.4], [0.3, 1.7, 0.1], [-0.2, 0.5, 1.2]],
    "b": [0.4, -0.7, 1.1],
    "d": [1.3, 0.3, -0.2],
    "image": [
        [0.2, 0.9, 0.4, 1.3, 0.8], [1.1, 0.3, 0.7, 0.5, 1.6], [0.6, 1.4, 0.1, 1.2, 0.35], [1.7, 0.55, 1.05, 0.25, 0.95],
    ],
    "k": [[0.1, -0.3, 0.2], [0.5, 0.7, -0.4]],
}  # fmt: skip
"""The arguments of calls, by the names that they have there; all are traced."""

SPECIAL = """
bdtr(3, 8, u) bdtrc(3, 8, u) betainc(1.5, 2.5, u) betaincc(1.5, 2.5, u) betaincinv(1.5, 2.5, u) betaln(x, y) beta(x, y)
binom(x + 3, y) boxcox(x, 0.7) boxcox1p(x, 0.7) cbrt(x) chdtr(3, x) chdtrc(3, x) chdtri(3, u) cosdg(x) cosm1(x) cotdg(x)
digamma(x) ellipe(u) ellipk(u) ellipkm1(u) entr(x) erf(z) erfc(z) erfcx(z) erfinv(u) exp1(x) exp10(u) exp2(x) expi(x)
expit(z) expn(2, x) exprel(x) fdtr(3, 5, x) fdtrc(3, 5, x) fdtri(3, 5, u) gamma(x) gammainc(2, x) gammaincc(2, x)
gammainccinv(2, u) gammaincinv(2, u) gammaln(x) gammasgn(z) gdtr(1.5, 2, x) gdtrc(1.5, 2, x) huber(1, z)
hyp1f1(1.5, 2.5, z) hyp2f1(1, 2, 3.5, u) i0(x) i0e(x) i1(x) i1e(x) inv_boxcox(u, 0.7) inv_boxcox1p(u, 0.7) iv(2, x)
j0(x) j1(x) jv(2, x) k0(x) k0e(x) k1(x) k1e(x) kl_div(x, y) kv(2, x) log_expit(z) log_ndtr(z) loggamma(x) logit(u)
lpmv(1, 2, u) nbdtr(2, 3, u) nbdtrc(2, 3, u) ndtr(z) ndtri(u) ndtri_exp(-x) pdtr(2, x) pdtrc(2, x) poch(x, y)
pseudo_huber(1, z) psi(x) radian(x, y, x) rel_entr(x, y) rgamma(x) sindg(x) spence(x) stdtr(3, z) stdtrit(3, u) tandg(x)
wofz(z).real xlog1py(x, y) xlogy(x, y) y0(x) y1(x) yn(2, x) zetac(x + 1.5) owens_t(z, x) fresnel(x)[0] sici(x)[1]
logsumexp(z) logsumexp(image, axis=1) softmax(z) log_softmax(z) softmax(image, axis=0) multigammaln(x + 3, 2)
polygamma(1, x) sinc(z) zeta(x + 1.5) zeta(x + 1.5, 2)
"""

STATS = """
gmean(x) hmean(x) pmean(x, 3) gstd(x) gzscore(x) zscore(x) zscore(image, axis=1, ddof=1) zmap(x, y) skew(x)
skew(x, bias=False) kurtosis(x) kurtosis(image, axis=1, bias=False) moment(x, order=3) variation(x) sem(x) sem(image)
tmean(x) tvar(x) tstd(x) tsem(x) trim_mean(x, 0.1) iqr(x) median_abs_deviation(x) describe(x).variance lmoment(x)
quantile(x, 0.3) kstat(x, 2) kstatvar(x) boxcox_llf(0.5, x) yeojohnson_llf(0.5, x) circmean(x) circvar(x) circstd(x)
entropy(x) entropy(x, y) differential_entropy(x) pearsonr(x, y).statistic pearsonr(x, y).pvalue
spearmanrho(x, y).statistic chatterjeexi(x, y).statistic ttest_1samp(x, 0.9).statistic ttest_1samp(x, 0.9).pvalue
ttest_ind(x, y).statistic ttest_ind(x, y).pvalue ttest_ind(x, y, equal_var=False).statistic
ttest_rel(x, y).statistic ttest_rel(x, y).pvalue f_oneway(x, y).statistic f_oneway(x, y).pvalue skewtest(x).statistic
kurtosistest(z).statistic normaltest(x).statistic jarque_bera(x).statistic jarque_bera(x).pvalue
chisquare(x / x.sum(), y / y.sum()).statistic power_divergence(x / x.sum(), y / y.sum(), lambda_=0.5).statistic
combine_pvalues(u).statistic combine_pvalues(u, method='stouffer').pvalue bartlett(x, y).statistic
levene(x, y).statistic alexandergovern(x, y).statistic directional_stats(image).mean_direction
directional_stats(image).mean_resultant_length linregress(x, y).slope theilslopes(x, y).slope kendalltau(x, y).statistic
spearmanr(x, y).statistic norm.pdf(z) norm.logpdf(z) norm.cdf(z) gamma.logpdf(x, 2) boxcox(x, 0.7) yeojohnson(z, 0.7)
bartlett(x, y, y).pvalue wasserstein_distance(x, y) energy_distance(x, y)
"""

FFT = """
fft(x).real fft(x).imag ifft(x).real rfft(x).real irfft(x) hfft(x) ihfft(x).real fft2(image).real ifft2(image).imag
rfft2(image).imag irfft2(image) fftn(image).real ifftn(image).real rfftn(image).real irfftn(image) hfft2(image)
ihfft2(image).real hfftn(image) ihfftn(image).real fft(x, n=5).real fft(x, norm='ortho').real rfft(image, axis=0).imag
fftshift(x) ifftshift(x) dct(x) idct(x) dst(x) idst(x) dct(x, type=3) dctn(image) idctn(image) dstn(image) idstn(image)
fht(x, 0.1, 0.5) ifht(x, 0.1, 0.5)
"""

SIGNAL = """
convolve(x, b) convolve(x, b, mode='same') convolve(x, b, method='direct') convolve(x, b, method='fft') correlate(x, b)
fftconvolve(x, b) fftconvolve(image, k, mode='same') oaconvolve(x, b) convolve2d(image, k) correlate2d(image, k)
lfilter(b, d, x) filtfilt(b, d, x, padlen=3) sosfilt([[0.5, 0.2, 0.1, 1.0, 0.3, 0.1]], x)
sosfiltfilt([[0.5, 0.2, 0.1, 1.0, 0.3, 0.1]], x, padlen=3) lfilter_zi(b, d) hilbert(x).imag
envelope(x) detrend(x) detrend(x, type='constant') resample(x, 5) resample_poly(x, 2, 3)
decimate(x, 2, n=1, zero_phase=False) savgol_filter(x, 5, 2) upfirdn(b, x, 2) medfilt(x, 3)
order_filter(x, [1, 1, 1], 1) wiener(x, 3) deconvolve(x, b)[0]
freqz(b, d, worN=4)[1].real freqs(b, d, worN=[0.5, 1.5])[1].real
freqz_zpk([0.1], [0.3], x[0], worN=4)[1].real group_delay((b, d), w=4)[1] czt(x).real zoom_fft(x, [0, 0.5]).real
periodogram(x)[1] welch(x, nperseg=4)[1] csd(x, y, nperseg=4)[1].real coherence(x, y, nperseg=4)[1]
stft(x, nperseg=4)[2].real spectrogram(x, nperseg=4)[2] lombscargle(x, y, u + 0.5) vectorstrength(x, 1.3)[0]
bilinear(b, d)[0] normalize(b, d)[0] tf2zpk(b, d)[2] zpk2tf([0.1], [0.3], x[0])[0]
unit_impulse(4)*x[0] gauss_spline(x, 3) cspline1d(x) qspline1d(x) minimum_phase(x) firwin(5, u[0])
"""

LINALG = """
det(a) inv(a) solve(a, b) norm(a) expm(a) logm(a) sqrtm(a) pinv(a) lstsq(a, b)[0] eigh(a + a.T)[0] eigvalsh(a + a.T)
eigvals(a).real svd(a)[1] svdvals(a) cholesky(a @ a.T) qr(a)[1] lu(a)[2] solve_triangular(a, b) toeplitz(b) circulant(b)
hankel(b) block_diag(a, k) fiedler(b) companion(x) polar(a)[0] orthogonal_procrustes(a, a @ a)[1] cosm(a)
solve_banded((1, 1), a, b) matrix_balance(a)[0] khatri_rao(a, a) convolution_matrix(b, 4) dft(3)@b
"""

NDIMAGE = """
gaussian_filter(image, 1.0) gaussian_filter1d(image, 1.0) uniform_filter(image, 3) uniform_filter1d(image, 3)
convolve(image, k) correlate(image, k) convolve1d(image, b) correlate1d(image, b) sobel(image) prewitt(image)
laplace(image) gaussian_laplace(image, 1.0) gaussian_gradient_magnitude(image, 1.0) maximum_filter(image, 3)
minimum_filter(image, 3) median_filter(image, 3) percentile_filter(image, 30, 3) rank_filter(image, 1, 3)
shift(image, 0.4) zoom(image, 1.5) rotate(image, 20.0) affine_transform(image, [[0.9, 0.1], [0.0, 1.1]])
map_coordinates(image, k + 1) spline_filter(image) spline_filter1d(image) fourier_gaussian(image, 1.0)
grey_dilation(image, 3) grey_erosion(image, 3) grey_opening(image, 3) white_tophat(image, 3) mean(image) sum(image)
variance(image) standard_deviation(image) center_of_mass(image)[0] maximum(image) minimum(image) median(image)
"""

AREAS = {
    "special": SPECIAL, "stats": STATS, "fft": FFT, "signal": SIGNAL, "linalg": LINALG, "ndimage": NDIMAGE,
    "integrate": "trapezoid(x) cumulative_trapezoid(x) simpson(x) cumulative_simpson(x) romb(z[:5])",
    "optimize": "rosen(x) rosen_der(x) rosen_hess(x) rosen_hess_prod(x, y)",
}  # fmt: skip


def calls(text: str) -> list[str]:
    """Return the calls that stand in a text, with spaces and line breaks between them."""
    found, depth = [""], 0
    for letter in text:
        depth += {"(": 1, "[": 1, ")": -1, "]": -1}.get(letter, 0)
        if letter in " \n" and not depth:
            found.append("")
        elif letter != "\n":
            found[-1] += letter
    return [call for call in found if call]


def name_of(call: str) -> str:
    return call.partition("(")[0]


# In the process with the switch


def outcome_of(area: str, call: str) -> str:
    """Make a call on traced tensors; return "right", "wrong", or what the error says."""
    import numpy as np

    import fgrad as fg

    names = [name for name in POINTS if re.search(rf"\b{name}\b", call)]
    points = [np.array(POINTS[name]) for name in names]
    f = function_of(area, call, names)
    try:
        expected = np.asarray(f(*points))
    except Exception as error:
        return f"no call: {type(error).__name__}: {error}"
    try:
        value, pullback = fg.vjp(f, *points)
        value = fg.constant(value)  # what is constant in pieces may be a plain number
        weights = np.cos(np.arange(float(value.size))).reshape(value.shape)
        found = [
            np.zeros_like(x) if each is None else each.numpy()
            for x, each in zip(points, pullback(weights), strict=True)
        ]
    except Exception as error:
        return "".join(traceback.format_exception_only(error))
    if value.shape != expected.shape or not np.allclose(value.numpy(), expected, rtol=1e-10, atol=1e-12):
        return "wrong"
    differences = differences_of(lambda *points: np.sum(f(*points) * weights), points)
    pairs = zip(found, differences, strict=True)
    return "right" if all(np.allclose(*pair, rtol=1e-5, atol=1e-6) for pair in pairs) else "wrong"


def function_of(area: str, call: str, names: list[str]) -> Any:
    """Return the function of the named arguments that makes a call of one of SciPy's modules."""
    import importlib

    module = importlib.import_module(f"scipy.{area}")
    return eval(f"lambda {', '.join(names)}: scipy.{call}", {"scipy": module})


def differences_of(f: Any, points: list[Any]) -> list[Any]:
    """Return the central differences of a function at arrays."""
    import numpy as np

    found = []
    for place, x in enumerate(points):
        slope = np.zeros_like(x)
        for index in np.ndindex(x.shape):
            step = np.zeros_like(x)
            step[index] = 1e-6
            ends = [f(*points[:place], x + sign * step, *points[place + 1 :]) for sign in (1, -1)]
            slope[index] = (ends[0] - ends[1]) / 2e-6
        found.append(slope)
    return found


# In the process that asks


def outcomes(only: dict[str, list[str]] | None = None) -> dict[str, dict[str, str]]:
    """Return what each call gives under the switch, by area.

    Args:
        only: the calls to make; by default all.
    """
    chosen = only or {area: calls(text) for area, text in AREAS.items()}
    environment = {**os.environ, "SCIPY_ARRAY_API": "1"}
    command = [sys.executable, __file__, "--calls"]
    ran = subprocess.run(
        command, input=json.dumps(chosen), env=environment, capture_output=True, text=True, check=False
    )
    if ran.returncode:
        raise RuntimeError(ran.stderr)
    return json.loads(ran.stdout)  # type: ignore[no-any-return]


def table(found: dict[str, dict[str, str]]) -> list[str]:
    """Return the lines of the table on the page."""
    lines = ["| of `scipy.` | right | of | calls that are refused |", "| --- | ---: | ---: | --- |"]
    for area, results in found.items():
        right = sum(result == "right" for result in results.values())
        others = ", ".join(
            f"`{call.replace('|', chr(92) + '|')}`" for call, result in results.items() if result != "right"
        )
        lines.append(f"| `{area}` | {right} | {len(results)} | {others} |")
    totals = [sum(result == "right" for results in found.values() for result in results.values())]
    totals.append(sum(map(len, found.values())))
    return [*lines, f"| all | {totals[0]} | {totals[1]} | |"]


def main() -> None:
    parser = argparse.ArgumentParser(
        description="What SciPy's functions do with traced tensors under SCIPY_ARRAY_API=1."
    )
    parser.add_argument("--calls", action="store_true", help="make the calls that come in, as JSON")
    parser.add_argument("--reasons", action="store_true", help="print what each refused call says")
    options = parser.parse_args()
    if options.calls:
        warnings.simplefilter("ignore")
        chosen = json.load(sys.stdin)
        json.dump({area: {call: outcome_of(area, call) for call in each} for area, each in chosen.items()}, sys.stdout)
        return
    found = outcomes()
    print("\n".join(table(found)))
    if options.reasons:
        for area, results in found.items():
            print(*(f"\n{area}.{call}\n    {said}" for call, said in results.items() if said != "right"))


if __name__ == "__main__":
    main()
