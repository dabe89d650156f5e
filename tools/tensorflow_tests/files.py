"""Which tests are run, and what is known of those that do not pass.

FILES      the files, and the namespace that their tests are for
OUTSIDE    tests of what fgrad has no part of, with the reason
LEFT       tests that fail, with the reason
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

REPOSITORY = "https://github.com/tensorflow/tensorflow"
COMMIT = "1cf0898dd4331baf93fe77205550f2c2e6c90ee5"
"""A commit of TensorFlow's branch r2.0, of October 2019."""

EAGER, GRAPH = "fgrad.compat.tensorflow", "fgrad.compat.tensorflow1"


@dataclass(frozen=True)
class File:
    """A file of tests.

    Attributes:
        path: in TensorFlow's repository, from `tensorflow/python` on.
        namespace: the module of fgrad in TensorFlow's place, whose mode is the one in which the file's tests begin.
    """

    path: str
    namespace: str = GRAPH


_OPTIMIZERS = ["adadelta", "adagrad_da", "adagrad", "adam", "ftrl", "gradient_descent", "momentum", "proximal_adagrad"]
FILES = (
    File("eager/backprop_test.py", EAGER),
    File("eager/forwardprop_test.py", EAGER),
    File("ops/gradients_test.py"),
    File("ops/parallel_for/gradients_test.py"),
    File("ops/clip_ops_test.py"),
    File("kernel_tests/clip_ops_test.py"),
    File("training/optimizer_test.py"),
    *(File(f"training/{name}_test.py") for name in (*_OPTIMIZERS, "proximal_gradient_descent", "rmsprop")),
    File("training/learning_rate_decay_test.py"),
    File("training/moving_averages_test.py"),
)

Reasons = Mapping[tuple[str, str], str]


def _by_test(reasons: Mapping[str, Mapping[str, str]]) -> Reasons:
    """Return the reasons by file and test, from names of tests in one string by reason and file."""
    return {
        (path, test): reason
        for reason, by_file in reasons.items()
        for path, tests in by_file.items()
        for test in tests.split()
    }


BACKPROP, FORWARDPROP, GRADIENTS = "eager/backprop_test.py", "eager/forwardprop_test.py", "ops/gradients_test.py"
PARALLEL, AVERAGES = "ops/parallel_for/gradients_test.py", "training/moving_averages_test.py"

OUTSIDE = _by_test(
    {
        "operations in C++, their attributes, and gradients registered for them": {
            BACKPROP: """
                BackpropTest.testGetAttrList BackpropTest.testGetAttrType BackpropTest.testMakeAttrShape
                BackpropTest.testMakeAttrShapeList BackpropTest.testMakeAttrType BackpropTest.testMakeAttrTypeList
                BackpropTest.testMulType""",
            FORWARDPROP: """
                ForwardpropTest.testForwardGradientFunction
                ForwardpropTest.testForwardGradientFunctionUsedByAccumulatorForOps""",
            GRADIENTS: """
                GradientsTest.testGradients GradientsTest.testUnusedOutput GradientsTest.testNoGradientForStringOutputs
                GradientsTest.testNoGradientForStringOutputsWithOpNamespace TensorListGradientsTest.testDefaultGradYs
                PreventGradientTest.testPreventGradient""",
        },
        "private functions and attributes of TensorFlow": {
            BACKPROP: """
                AggregateIndexedSlicesGradientsTest.testMixedTensorAndIndexedSlices
                AggregateIndexedSlicesGradientsTest.testMultipleGradients
                AggregateIndexedSlicesGradientsTest.testMultipleGradientsWithNones
                AggregateIndexedSlicesGradientsTest.testNoGradients
                AggregateIndexedSlicesGradientsTest.testOneGradient""",
            GRADIENTS: """
                GetDependentVariablesTest.testNesting GetDependentVariablesTest.testNoVariables
                GetDependentVariablesTest.testVariableSamePrefix GetDependentVariablesTest.testVariablesOutside
                GetDependentVariablesTest.testVariablesOutsideAndCustomGradient
                GetDependentVariablesTest.testVariablesOutsideAndNonDifferentiable
                GetDependentVariablesTest.testVariablesOutsideAndNonTrainable
                GetDependentVariablesTest.testVariablesOutsideButDSeparated
                HessianVectorProductTest.testHessianVectorProduct""",
            "training/ftrl_test.py": "FtrlOptimizerTest.testFtrlWithL2ShrinkageDoesNotChangeLrSchedule",
        },
        "devices": {
            GRADIENTS: """
                GradientsTest.testColocateGradients GradientsTest.testColocateGradientsWithAggregation
                GradientsTest.testColocateGradientsWithAggregationInMultipleDevices""",
            AVERAGES: "ExponentialMovingAverageTest.testAverageVariablesDeviceAssignment",
        },
        "functions that are parts of a graph (`Defun`)": {
            GRADIENTS: """
                FunctionGradientsTest.testFunctionGradientWithGradFuncAndRegistration
                FunctionGradientsTest.testFunctionGradientWithRegistration
                FunctionGradientsTest.testFunctionGradientsBasic
                FunctionGradientsTest.testFunctionGradientsComposition
                FunctionGradientsTest.testFunctionGradientsWithGradFunc FunctionGradientsTest.testGradientOfCaptured""",
        },
        "the vectorization of a graph's loops (`pfor`)": {
            BACKPROP: "BatchJacobianTest.testPforException JacobianTest.testPforException",
            PARALLEL: """
                GradientsTest.test_fc_jacobian GradientsTest.test_fc_per_eg_grad GradientsTest.test_lstm_per_eg_grad""",
        },
        "reference variables, which TensorFlow 2 has no more": {
            GRADIENTS: """
                CustomGradientTest.testCustomGradientErrorsWithNonResourceVariables
                GradientsTest.testVariableRefGradient""",
            "training/adagrad_test.py": """
                AdagradOptimizerTest.testDynamicShapeVariableWithCallableInit
                AdagradOptimizerTest.testDynamicShapeVariable_Ok""",
        },
        "tensors of strings": {
            BACKPROP: """
                BackpropTest.testTapeGradientStringTarget BackpropTest.testTapeNoOpGradientStringSourceAndTarget
                BackpropTest.testTapeNoOpGradientWithMultiTargetMultiSourceIncludeString""",
        },
        "bfloat16": {AVERAGES: "MovingAveragesTest.testWeightedMovingAverageBfloat16"},
        "files that hold graphs": {AVERAGES: "ExponentialMovingAverageTest.testImportedGraphVariablesToRestore"},
    }
)

LEFT = _by_test(
    {
        "`tf.keras` is not there": {
            GRADIENTS: "VariablesGradientTest.testKerasRecompute",
            PARALLEL: "GradientsTest.test_mnist_per_eg_grad GradientsTest.test_mnist_per_eg_jacobian",
        },
        "`tf.TensorArray` is not there": {GRADIENTS: "GradientsTest.testNonDifferentiableSwitchInWhileLoop"},
        "in a graph, a function with its own gradient runs when a session runs it, on values, so that it cannot create "
        "variables, and its rule raises errors only then": {
            GRADIENTS: """
                CustomGradientTest.testCustomGradientErrors CustomGradientTest.testCustomGradientWithVariables
                CustomGradientTest.testCustomGradientWithVariablesNoFalsePositives
                CustomGradientTest.testRecursiveCustomGradient""",
        },
        "gradients are dense: they have no `values` and `indices`": {
            BACKPROP: "BackpropTest.testAggregateGradients BackpropTest.testImplicitGradOverEmbeddingLookup",
        },
        "`tf.IndexedSlices` as `grad_ys` need a `dense_shape`, and the gradient is dense": {
            GRADIENTS: "GradientsTest.testSingletonIndexedSlices",
        },
        "expects that a tape refuses `tf.cond` and `tf.while_loop` in a graph; here the gradient is right": {
            BACKPROP: "BackpropTest.testGradientTapeWithCond BackpropTest.testGradientTapeWithWhileLoop",
        },
        "expects that the Jacobian of a tape that is not persistent is refused; here it takes one pass": {
            BACKPROP: "JacobianTest.testPersistentTape BatchJacobianTest.testPersistentTape",
        },
        "expects an error for the Hessian of a linear function; here it is 0": {
            GRADIENTS: "HessianTest.testHessianInvalidDimension",
        },
        "the message is that of later versions of TensorFlow": {
            BACKPROP: "BackpropTest.testGradientTapeGradientCalledMultipleTimes",
            GRADIENTS: "OnlyRealGradientsTest.testRealOnly",
        },
        "the numbers of rows, known only when a session runs, are compared with another error": {
            PARALLEL: "GradientsTest.test_batch_jacobian_bad_unknown_shapes",
        },
        "the gradient of a product needs the values of all factors, here also that of a variable not initialized yet": {
            GRADIENTS: "VariablesGradientTest.testFnRecompute",
        },
        "in a graph the powers of `beta1` and `beta2` are tensors, not variables": {
            "training/adam_test.py": "AdamOptimizerTest.testResourceBasic",
        },
    }
)
