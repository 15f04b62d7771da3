import pytest

from tfscale.suite.monitors.visible import Card, visible

CARDS = (
    Card(0, "GPU-af7b61d8-0000-0000-0000-000000000000", "H100", ("MIG-11111111-2222-0000-0000-000000000000",)),
    Card(1, "GPU-af7b0000-0000-0000-0000-000000000001", "H100"),
    Card(2, "GPU-00c0ffee-0000-0000-0000-000000000002", "H100"),
)


@pytest.mark.parametrize(
    ("entries", "indices"),
    [
        (None, (0, 1, 2)),
        ("0", (0,)),
        ("2,0", (2, 0)),
        (" 1 , 2 ", (1, 2)),
        ("", ()),
        ("-1", ()),
        ("0,-1,1", (0,)),
        ("0,9,1", (0,)),
        ("1,banana,0", (1,)),
        ("1,,0", (1,)),
        ("0,0", ()),
        ("1,GPU-af7b0", ()),
        ("GPU-af7b61d8-0000-0000-0000-000000000000", (0,)),
        ("GPU-af7b6,GPU-00", (0, 2)),
        ("gpu-AF7B6", (0,)),
        ("GPU-af7b,2", ()),  # two cards begin so
        ("2,GPU-dead", (2,)),
        ("MIG-GPU-00c0ffee-0000-0000-0000-000000000002/1/0", (2,)),
        ("MIG-11111111", (0,)),
        ("MIG-99999999,1", (None, 1)),
    ],
)
def test_forms(entries: str | None, indices: tuple[int | None, ...]) -> None:
    """CUDA programming guide, environment variables: entries after the first invalid one are hidden."""
    environment = {} if entries is None else {"CUDA_VISIBLE_DEVICES": entries}
    assert visible(environment, CARDS).indices == indices


@pytest.mark.parametrize("entries", ["0,9", "GPU-af7b", "GPU-dead", "banana", "0,0", "MIG-9"])
def test_what_cannot_be_mapped_says_why_and_names_the_entry(entries: str) -> None:
    (reason,) = visible({"CUDA_VISIBLE_DEVICES": entries}, CARDS).reasons
    assert entries.split(",")[-1] in reason


@pytest.mark.parametrize("entries", ["", "-1", "0", "GPU-af7b6"])
def test_usual_forms_need_no_reason(entries: str) -> None:
    assert visible({"CUDA_VISIBLE_DEVICES": entries}, CARDS).reasons == ()


@pytest.mark.parametrize(
    ("order", "names", "indices"),
    [
        (None, ("H100", "H100"), (1,)),
        (None, ("H100", "T4"), (None,)),
        ("FASTEST_FIRST", ("H100", "T4"), (None,)),
        ("PCI_BUS_ID", ("H100", "T4"), (1,)),
    ],
)
def test_indices_are_certain_only_where_the_order_is(
    order: str | None, names: tuple[str, str], indices: tuple[int | None]
) -> None:
    cards = [Card(number, f"GPU-{number}", name) for number, name in enumerate(names)]
    environment = {"CUDA_VISIBLE_DEVICES": "1"} | ({"CUDA_DEVICE_ORDER": order} if order else {})
    found = visible(environment, cards)
    assert found.indices == indices
    assert ("CUDA_DEVICE_ORDER=PCI_BUS_ID" in "".join(found.reasons)) == (indices == (None,))


@pytest.mark.parametrize("order", ["PCI_BUS_ID", None])
def test_indices_go_by_address_and_not_by_the_order_of_nvml(order: str | None) -> None:
    """0000:0F before 0000:A1 before 0001:07, by hexadecimal value; without all addresses, NVML's order."""
    addresses = ("00000001:07:00.0", "00000000:A1:00.0", "00000000:0F:00.0")
    environment = {"CUDA_VISIBLE_DEVICES": "0,2,1"} | ({"CUDA_DEVICE_ORDER": order} if order else {})
    cards = [Card(number, f"GPU-{number}", "H100", (), address) for number, address in enumerate(addresses)]
    assert visible(environment, cards).indices == (2, 0, 1)
    assert visible(environment, [*cards[:2], Card(2, "GPU-2", "H100")]).indices == (0, 2, 1)


def test_identifiers_do_not_depend_on_the_order() -> None:
    cards = [Card(0, "GPU-a", "T4"), Card(1, "GPU-b", "H100")]
    assert visible({"CUDA_VISIBLE_DEVICES": "GPU-b,GPU-a"}, cards).indices == (1, 0)


def test_unreadable_identifiers_are_no_invalid_entry() -> None:
    """On WSL, or without permission: which card it is is unknown, but the next entry still counts."""
    found = visible({"CUDA_VISIBLE_DEVICES": "GPU-a,0"}, [Card(0, None, "T4")])
    assert found.indices == (None, 0)
    assert found.certain == (0,)
