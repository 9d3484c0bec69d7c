"""Reading YAML files, with what can be wrong with them."""

from __future__ import annotations

from pathlib import Path
from typing import cast

import yaml  # type: ignore[import-untyped]
from typing_extensions import override

from lightning_async.cli.compare.configuration import ComparisonError, Config


class _UniqueKeys(yaml.SafeLoader):  # type: ignore[misc]
    """A loader that refuses a key that is given twice, of which YAML would take the last without a word."""

    @override
    def compose_mapping_node(self, anchor: str | None) -> yaml.MappingNode:
        node = super().compose_mapping_node(anchor)
        lines: dict[tuple[str, str], int] = {}
        for key, _ in node.value:
            if not isinstance(key, yaml.ScalarNode):
                continue
            line, name = key.start_mark.line + 1, (key.tag, key.value)
            if name in lines:
                raise yaml.YAMLError(
                    f"the key {key.value!r} is in line {lines[name]} and again in line {line}; keep one of them"
                )
            lines[name] = line
        return node


def read_yaml(path: Path, what: str) -> Config:
    """Reads a YAML file whose top level is a mapping.

    Args:
        path: The file.
        what: What the file is, for messages.

    Raises:
        ComparisonError: If the file cannot be read, is not YAML, or holds something else than a mapping.
    """
    try:
        content = yaml.load(path.read_text(encoding="utf-8"), Loader=_UniqueKeys)
    except (FileNotFoundError, NotADirectoryError):
        raise ComparisonError(f"{what}: there is no file {path}") from None
    except IsADirectoryError:
        raise ComparisonError(f"{what}: {path} is a folder; name a YAML file") from None
    except OSError as error:
        raise ComparisonError(f"{what}: {path} cannot be read: {error.strerror}") from None
    except UnicodeDecodeError:
        raise ComparisonError(f"{what}: {path} is not text in UTF-8; name a YAML file, saved as UTF-8") from None
    except (yaml.YAMLError, ValueError) as error:
        raise ComparisonError(f"{what}: {path} is not valid YAML: {error}") from error
    if not isinstance(content, dict):
        raise ComparisonError(f"{what}: {path} must hold a mapping, it holds {type(content).__name__}")
    return cast("Config", content)
