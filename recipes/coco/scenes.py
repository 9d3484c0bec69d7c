"""Composed scenes: real garments, tinted, on a canvas, with exact labels and captions; they stand in for COCO.

A scene has one to four garments of Fashion-MNIST, each in a quarter of the canvas of its own, so that none hides
another. What is in a scene is known exactly, which for photographs it is not.
"""

from collections.abc import Sequence
from typing import NamedTuple

import torch
from torch import Tensor

__all__ = ["COLOURS", "GARMENTS", "SIZE", "Scenes", "compose_scenes"]

SIZE = 64
"""Height and width of the canvas."""

GARMENTS = (
    "T-shirt",
    "pair of trousers",
    "pullover",
    "dress",
    "coat",
    "sandal",
    "shirt",
    "sneaker",
    "bag",
    "boot",
)
"""The labels, in Fashion-MNIST's order."""

COLOURS = {
    "red": (230, 60, 50),
    "green": (60, 190, 80),
    "blue": (70, 110, 235),
    "yellow": (235, 210, 60),
    "purple": (170, 80, 210),
    "white": (240, 240, 240),
}
"""Names of the tints, with the colour of the brightest pixel."""

_PLACES = ("top left", "top right", "bottom left", "bottom right")
_GARMENT = 28
_QUARTER = SIZE // 2
_DARKEST, _BRIGHTEST = 0, 48  # of the canvas


class Scenes(NamedTuple):
    """Pictures ``(scenes, 3, 64, 64)`` in ``uint8``, labels ``(scenes, 10)`` of 0 and 1, one caption each."""

    images: Tensor
    labels: Tensor
    captions: list[str]


def compose_scenes(garments: Tensor, classes: Tensor, count: int, seed: int) -> Scenes:
    """Draw scenes; the same arguments give the same ones.

    Args:
        garments: Grey images ``(garments, 1, 28, 28)``, ``uint8``.
        classes: Their class numbers, 0 to 9.
        count: Number of scenes.
        seed: Seed of everything that is drawn: how many garments, which, their colours and places, the canvas.

    Raises:
        ValueError: If the images have another size, or ``count`` is below 1.

    Example:
        >>> scenes = compose_scenes(torch.full((1, 1, 28, 28), 255, dtype=torch.uint8), torch.tensor([8]), 1, seed=0)
        >>> scenes.captions[0], scenes.labels[0].nonzero().flatten().tolist()
        ('a white bag at the top right', [8])
    """
    if garments.shape[1:] != (1, _GARMENT, _GARMENT):
        raise ValueError(f"Garments must be (number, 1, {_GARMENT}, {_GARMENT}), got {tuple(garments.shape)}.")
    if count < 1:
        raise ValueError(f"There must be at least 1 scene, got {count}.")
    generator = torch.Generator().manual_seed(seed)

    def draw(low: int, high: int, size: tuple[int, ...]) -> Tensor:
        return torch.randint(low, high, size, generator=generator)

    numbers = draw(1, len(_PLACES) + 1, (count,)).tolist()
    places = torch.rand(count, len(_PLACES), generator=generator).argsort(dim=1)
    chosen = draw(0, len(garments), (count, len(_PLACES)))
    tints = draw(0, len(COLOURS), (count, len(_PLACES)))
    shifts = draw(0, _QUARTER - _GARMENT + 1, (count, len(_PLACES), 2))
    canvas = draw(_DARKEST, _BRIGHTEST + 1, (count, 3, 1, 1))

    images = canvas.to(torch.uint8).expand(-1, -1, SIZE, SIZE).contiguous()
    labels = torch.zeros(count, len(GARMENTS))
    palette = torch.tensor(list(COLOURS.values())).view(-1, 3, 1, 1)
    names, captions = list(COLOURS), []
    for scene, number in enumerate(numbers):
        there = []
        for place in places[scene, :number].sort().values.tolist():
            garment, tint = int(chosen[scene, place]), int(tints[scene, place])
            grey = garments[garment].long()
            top, left = (shifts[scene, place] + torch.tensor(divmod(place, 2)) * _QUARTER).tolist()
            patch = images[scene, :, top : top + _GARMENT, left : left + _GARMENT]
            # Grey is how much of the canvas the garment covers, and how bright its colour is.
            patch.copy_((palette[tint] * grey + patch.long() * (255 - grey)) // 255)
            label = int(classes[garment])
            labels[scene, label] = 1.0
            there.append(f"a {names[tint]} {GARMENTS[label]} at the {_PLACES[place]}")
        captions.append(_listed(there))
    return Scenes(images, labels, captions)


def _listed(parts: Sequence[str]) -> str:
    return parts[0] if len(parts) == 1 else f"{', '.join(parts[:-1])} and {parts[-1]}"
