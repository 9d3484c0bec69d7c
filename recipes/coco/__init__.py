"""The tasks of gradient coding: labels and captions of COCO's images, or of composed scenes that stand in for them."""

from recipes.coco.captions import Captions
from recipes.coco.classifier import MultiLabelClassifier
from recipes.coco.gpt2 import GPT2, CaptionModel
from recipes.coco.images import MultiLabelImages

__all__ = ["GPT2", "CaptionModel", "Captions", "MultiLabelClassifier", "MultiLabelImages"]
