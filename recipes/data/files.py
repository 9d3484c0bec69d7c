"""The data files that travel with the recipes, checked before anything is trained on them."""

import hashlib
from pathlib import Path

__all__ = ["data_file"]

_SHA256 = {
    "a9a.npz": "06530f9303e6ccbce1e67a87ebf42cc9bff8bb44e274b80e0df7718e34f5f1f0",
    "austen.txt.xz": "5378d018b4bdfd18ae3d45c0d6175cbeff13a38a4c76433f26fa1102cf46ef64",
    "fashion_mnist_7000.npz": "b3a5ef00123a6fcb94b9de321db87656eb8fb8f8a3ae1a4a4b2175975aec0fce",
    "shakespeare_roles.json.xz": "ea69b9ba6a70274280c2ccdbc95c0f7e566237b9ec4693de2cc7fea3143f1be9",
}


def data_file(name: str, folder: Path | None = None) -> Path:
    """Return the path of a shipped data file after comparing its SHA-256 digest with the recorded one.

    Args:
        name: File name, for example ``"a9a.npz"``.
        folder: Where to look; the folder of this module by default.

    Raises:
        ValueError: If no such file is shipped, or if its content is not the recorded one.
        FileNotFoundError: If the file is missing.

    Example:
        >>> data_file("a9a.npz").name
        'a9a.npz'
    """
    if name not in _SHA256:
        raise ValueError(f"No data file is called {name!r}; shipped are {sorted(_SHA256)}.")
    path = (folder or Path(__file__).parent) / name
    if not path.is_file():
        raise FileNotFoundError(
            f"{path} is missing. It is part of the repository: restore it with `git checkout -- recipes/data`."
        )
    digest = hashlib.sha256(path.read_bytes()).hexdigest()
    if digest != _SHA256[name]:
        raise ValueError(
            f"{path} has SHA-256 {digest}, expected {_SHA256[name]}: the file was changed or cut short. "
            "Restore it with `git checkout -- recipes/data`."
        )
    return path
