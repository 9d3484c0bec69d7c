import shutil

import pytest

from recipes.data import data_file, load_austen

SHIPPED = ["a9a.npz", "austen.txt.xz", "fashion_mnist_7000.npz", "shakespeare_roles.json.xz"]


@pytest.mark.parametrize("name", SHIPPED)
def test_shipped_file_is_the_recorded_one(name):
    assert data_file(name).name == name


def test_unknown_name_lists_what_is_shipped():
    with pytest.raises(ValueError, match=r"'mnist.npz'.*fashion_mnist_7000.npz"):
        data_file("mnist.npz")


def test_missing_file_says_how_to_restore_it(tmp_path):
    with pytest.raises(FileNotFoundError, match="git checkout"):
        data_file("a9a.npz", folder=tmp_path)


def test_damaged_file_is_refused(tmp_path):
    copy = shutil.copy(data_file("a9a.npz"), tmp_path)
    with open(copy, "r+b") as file:
        file.truncate(1000)
    with pytest.raises(ValueError, match="SHA-256"):
        data_file("a9a.npz", folder=tmp_path)


def test_austen_holds_all_six_novels():
    text = load_austen()
    heroines = ["Emma Woodhouse", "Elizabeth", "Elinor", "Fanny Price", "Catherine Morland", "Anne Elliot"]
    assert all(heroine in text for heroine in heroines)
