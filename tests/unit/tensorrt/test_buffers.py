import ml_dtypes
import numpy as np
import pytest
from enginery_store.manifest import TensorSpec
from enginery_tensorrt.buffers import engine_values, extents
from enginery_tensorrt.engine import Tensor
from enginery_tensorrt.errors import InputRefusedError


def tensor(datatype: str, dtype: object, shape: list[int] | None = None, *, on_host: bool = False) -> Tensor:
    spec = TensorSpec(name="x", datatype=datatype, shape=[-1] if shape is None else shape)
    return Tensor(spec, np.dtype(dtype), on_host)  # type: ignore[call-overload]


@pytest.mark.parametrize("dtype", [np.float32, np.float16, np.int8, np.bool_, np.uint8, ml_dtypes.bfloat16])
def test_values_of_the_engine_s_type_are_taken_as_they_are(dtype: type) -> None:
    array = np.ones(3, dtype)
    assert engine_values(tensor("any", dtype), array) is array


def test_int64_becomes_int32_where_the_engine_has_narrowed_it() -> None:
    values = engine_values(tensor("INT32", np.int32), np.array([2**31 - 1, -(2**31)]))
    assert values.dtype == np.int32
    assert values.tolist() == [2**31 - 1, -(2**31)]


@pytest.mark.parametrize("value", [2**31, -(2**31) - 1])
def test_int64_beyond_32_bits_is_refused_rather_than_cut(value: int) -> None:
    with pytest.raises(InputRefusedError, match="beyond 32 bits"):
        engine_values(tensor("INT32", np.int32), np.array([0, value]))


def test_no_values_fit_into_any_type() -> None:
    assert engine_values(tensor("INT32", np.int32), np.empty((0, 4), np.int64)).shape == (0, 4)


def test_another_type_is_refused_by_name() -> None:
    with pytest.raises(InputRefusedError, match="input 'x' is float64, the engine takes FP32"):
        engine_values(tensor("FP32", np.float32), np.zeros(3))


def test_an_input_lies_in_a_profile_with_its_shape() -> None:
    assert extents(tensor("FP32", np.float32, [-1, 4]), np.zeros((3, 4), np.float32)) == (3, 4)


def test_an_input_that_holds_a_shape_lies_in_it_with_its_values() -> None:
    assert extents(tensor("INT32", np.int32, [2], on_host=True), np.array([9, 4])) == (9, 4)


def test_an_input_that_holds_a_shape_has_one_itself() -> None:
    with pytest.raises(InputRefusedError, match=r"input 'x' is \[3\], the engine takes \[2\]"):
        extents(tensor("INT32", np.int32, [2], on_host=True), np.array([9, 4, 1]))
