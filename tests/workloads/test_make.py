"""`data make` and the sample writer: whole or nothing, the same bytes for the same seed, errors that help."""

import hashlib
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from tfscale.workloads.make import make
from tfscale.workloads.records import DataError, read_manifest
from tfscale.workloads.sample import write_sample, write_source


def _content(folder: Path) -> dict[str, str]:
    return {path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in folder.iterdir()}


@pytest.mark.parametrize(("workload", "preset"), [("bert", "tiny"), ("vit", "micro"), ("recommender", "micro")])
def test_a_sample_is_the_same_again_in_another_process(
    workload: str, preset: str, tmp_path: Path, sample_folders: dict[str, Path]
) -> None:
    code = (
        "import sys; from pathlib import Path; from tfscale.workloads.sample import write_sample\n"
        f"print(write_sample({workload!r}, {preset!r}, Path(sys.argv[1]), 0))\n"
        "assert not {'tensorflow', 'keras'} & set(sys.modules)"
    )
    command = [sys.executable, "-c", code, str(tmp_path)]
    made = subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()
    assert _content(Path(made)) == _content(sample_folders[workload])
    assert [path.name for path in tmp_path.iterdir()] == [sample_folders[workload].name]


def test_a_sample_of_another_seed_differs(tmp_path: Path, sample_folders: dict[str, Path]) -> None:
    other = write_sample("recommender", "micro", tmp_path, 1)
    assert read_manifest(other).digest != read_manifest(sample_folders["recommender"]).digest


def test_several_at_once_agree(tmp_path: Path) -> None:
    with ThreadPoolExecutor(3) as pool:
        folders = list(pool.map(lambda _: write_sample("vit", "micro", tmp_path, 0), range(3)))
    assert len(set(folders)) == 1
    assert [path.name for path in tmp_path.iterdir()] == [folders[0].name]
    assert read_manifest(folders[0]).records == 512


def test_a_damaged_sample_is_not_passed_over(tmp_path: Path) -> None:
    folder = write_sample("vit", "micro", tmp_path, 0)
    (folder / "manifest.json").unlink()
    with pytest.raises(DataError, match=r"no manifest.json"):
        write_sample("vit", "micro", tmp_path, 0)


@pytest.mark.parametrize("workload", ["bert", "vit"])
def test_an_empty_folder_and_no_folder(workload: str, tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    preset = {"bert": "tiny", "vit": "micro"}[workload]
    with pytest.raises(DataError, match=r"holds no .* it is empty"):
        make(workload, tmp_path / "empty", tmp_path / "out", preset=preset)
    with pytest.raises(DataError, match=r"--from .*nowhere does not exist"):
        make(workload, tmp_path / "nowhere", tmp_path / "out", preset=preset)
    (tmp_path / "empty" / "a.pdf").write_bytes(b"x")
    with pytest.raises(DataError, match=r"it holds 1 other files \(.pdf\)"):
        make(workload, tmp_path / "empty", tmp_path / "out", preset=preset)
    assert not (tmp_path / "out").exists()


def test_an_output_folder_in_use_is_kept(tmp_path: Path) -> None:
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "mine").write_text("x")
    with pytest.raises(DataError, match=r"--out .* already holds something"):
        make("bert", tmp_path, tmp_path / "out", preset="tiny")
    assert (tmp_path / "out" / "mine").read_text() == "x"


def test_an_unknown_option_names_the_known_ones(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"option vocab of bert data: .* \(options: vocabulary_size, lowercase\)"):
        make("bert", tmp_path, tmp_path / "out", preset="tiny", options={"vocab": 3})
    with pytest.raises(DataError, match="vocabulary_size 40000 is more than the preset's embedding holds"):
        make("bert", tmp_path, tmp_path / "out", preset="tiny", options={"vocabulary_size": 40000})


def test_text_that_is_not_utf8_is_skipped_and_counted(tmp_path: Path) -> None:
    texts = tmp_path / "texts"
    texts.mkdir()
    (texts / "bad.txt").write_bytes(b"caf\xe9 " * 9)
    with pytest.raises(DataError, match=r"none of the 1 text files is readable UTF-8 \(first: bad.txt\)"):
        make("bert", texts, tmp_path / "out", preset="tiny")
    sentences = [
        f"The {word} sees a {other}." for word in ("cat", "dog", "cow") for other in ("mouse", "horse", "bird")
    ]
    (texts / "good.txt").write_text("\n\n".join([" ".join(sentences)] * 20), encoding="utf-8")
    manifest = make("bert", texts, tmp_path / "out", preset="tiny", files=2, options={"vocabulary_size": 60})
    assert manifest.skipped == 1 and manifest.facts["skipped_files"] == ["bad.txt"]
    words = (tmp_path / "out" / "vocab.txt").read_text(encoding="utf-8").splitlines()
    assert len(words) <= 60 and "cat" in words


def test_images_of_other_formats_are_encoded_and_damaged_ones_named(tmp_path: Path) -> None:
    folder = tmp_path / "images"
    pixels = np.random.default_rng(0).integers(0, 256, (40, 50, 4), dtype=np.uint8)
    for name in ("cats", "dogs"):
        (folder / name).mkdir(parents=True)
        Image.fromarray(pixels[..., :3]).save(folder / name / "a.jpg")
    Image.fromarray(pixels, "RGBA").save(folder / "cats" / "b.png")
    Image.fromarray(pixels, "CMYK").save(folder / "cats" / "c.jpg")
    whole = (folder / "dogs" / "a.jpg").read_bytes()
    (folder / "dogs" / "half.jpg").write_bytes(whole[: len(whole) // 2])
    (folder / "dogs" / "text.png").write_text("no image")
    manifest = make("vit", folder, tmp_path / "out", preset="micro", files=1)
    assert (manifest.records, manifest.skipped, manifest.facts["encoded_again"]) == (4, 2, 2)
    assert [entry.split(":")[0] for entry in manifest.facts["skipped_images"]] == ["dogs/half.jpg", "dogs/text.png"]
    assert manifest.shape == {"classes": 2, "shorter_side": 40}
    assert manifest.facts["class_names"] == ["cats", "dogs"]
    smaller = make("vit", folder, tmp_path / "smaller", preset="micro", files=1, options={"shorter_side": 32})
    assert smaller.shape["shorter_side"] == 32


def test_images_without_a_class_are_refused(tmp_path: Path) -> None:
    Image.new("RGB", (40, 40)).save(tmp_path / "a.jpg")
    with pytest.raises(DataError, match=r"1 images lie in .* itself \(first: a.jpg\)"):
        make("vit", tmp_path, tmp_path / "out", preset="micro")
    with pytest.raises(DataError, match="is a file; give a folder with one subfolder"):
        make("vit", tmp_path / "a.jpg", tmp_path / "out", preset="micro")


def test_more_classes_than_the_preset_are_refused(tmp_path: Path) -> None:
    for number in range(11):
        (tmp_path / "images" / f"{number}").mkdir(parents=True)
        Image.new("RGB", (40, 40)).save(tmp_path / "images" / f"{number}" / "a.jpg")
    with pytest.raises(DataError, match="has 11 subfolders, but the preset tells only 10 classes apart"):
        make("vit", tmp_path / "images", tmp_path / "out", preset="micro")


def test_sample_sources_grow_with_the_preset(tmp_path: Path) -> None:
    source = write_source("vit", "micro", tmp_path, 0)
    with Image.open(next(source.rglob("*.jpg"))) as image:
        assert 32 <= min(image.size) <= 43
