import pytest
from enginery_tensorrt.errors import InputRefusedError
from enginery_tensorrt.shapes import ProfileRange, narrowest


def batches(*ends: tuple[int, int]) -> list[ProfileRange]:
    return [ProfileRange({"x": (low, 3)}, {"x": (high, 3)}) for low, high in ends]


@pytest.mark.parametrize(("rows", "chosen"), [(1, 0), (2, 1), (4, 1), (5, 2), (8, 2)])
def test_each_batch_runs_on_the_narrowest_profile_that_holds_it(rows: int, chosen: int) -> None:
    assert narrowest(batches((1, 1), (1, 4), (1, 8)), {"x": (rows, 3)}) == chosen


def test_the_order_of_profiles_does_not_matter() -> None:
    assert narrowest(batches((1, 8), (1, 1), (1, 4)), {"x": (3, 3)}) == 2


def test_the_first_of_equal_profiles_is_taken() -> None:
    assert narrowest(batches((1, 4), (1, 4)), {"x": (3, 3)}) == 0


def test_all_inputs_have_to_fit_the_same_profile() -> None:
    short = ProfileRange({"ids": (1, 1), "mask": (1, 1)}, {"ids": (8, 16), "mask": (8, 16)})
    long = ProfileRange({"ids": (1, 17), "mask": (1, 17)}, {"ids": (1, 128), "mask": (1, 128)})
    assert narrowest([short, long], {"ids": (1, 100), "mask": (1, 100)}) == 1
    with pytest.raises(InputRefusedError, match=r"'mask' is \[1, 100\].*'ids' is \[1, 16\]"):
        narrowest([short, long], {"ids": (1, 16), "mask": (1, 100)})


def test_shapes_that_fit_no_profile_are_refused_with_what_would_fit() -> None:
    with pytest.raises(InputRefusedError, match=r"input 'x' is \[9, 3\], the engine takes \[1, 3\] to \[8, 3\]"):
        narrowest(batches((1, 8)), {"x": (9, 3)})


def test_another_number_of_dimensions_fits_nothing() -> None:
    with pytest.raises(InputRefusedError, match=r"input 'x' is \[3\], the engine takes \[4, 3\]"):
        narrowest(batches((4, 4)), {"x": (3,)})


def test_a_fixed_scalar_fits() -> None:
    assert narrowest([ProfileRange({"x": ()}, {"x": ()})], {"x": ()}) == 0


def test_values_that_tensorrt_does_not_tell_are_left_to_it() -> None:
    told = ProfileRange({"size": (1,)}, {"size": (9,)}, frozenset({"size"}))  # 8.6: of two values the first
    assert narrowest([told], {"size": (9, 4)}) == 0
    with pytest.raises(InputRefusedError, match=r"input 'size' is \[10, 4\], the engine takes \[1\] to \[9\]"):
        narrowest([told], {"size": (10, 4)})


def test_all_values_that_are_told_are_compared() -> None:
    told = ProfileRange({"size": (1, 4)}, {"size": (9, 4)}, frozenset({"size"}))
    with pytest.raises(InputRefusedError, match=r"input 'size' is \[9, 5\]"):
        narrowest([told], {"size": (9, 5)})
