"""GLDv2-micro: a small part of Google Landmarks v2, landmarks as places."""

from __future__ import annotations

import csv
from pathlib import Path

from displace.datasets.base import Counts, Dataset, Protocol
from displace.errors import DatasetError
from displace.files.reading import open_csv
from displace.manifest.table import Manifest
from displace.truth import Tolerance

_REFERENCES, _QUERIES = "train", "val"


class Gldv2Micro(Dataset):
    """3,103 landmarks with 7 to 9 references and one query each, from any viewpoint."""

    name = "gldv2_micro"
    title = "GLDv2-micro"
    paper = "Weyand, Araujo, Cao, Sim: Google Landmarks Dataset v2 (CVPR 2020); the micro subset is on Kaggle"
    obtain = (
        "Download 'google-landmark-dataset-v2-micro' from Kaggle. Needed are train.csv and val.csv (filename, "
        "landmark_id) and the images, in images/ or beside the CSV files"
    )
    traversals = (_REFERENCES, _QUERIES)
    protocols = (
        Protocol(
            "gldv2_micro-exact",
            Tolerance("exact"),
            queries=(_QUERIES,),
            references=(_REFERENCES,),
            expected=Counts(places=3_103, references=23_294, queries=3_103),
            note="DisPlace, HOPS",
        ),
    )

    def read(self, root: Path) -> Manifest:
        """Read the two CSV files."""
        images: list[str] = []
        places: list[str] = []
        traversals: list[str] = []
        for split in (_REFERENCES, _QUERIES):
            rows = self._rows(root, root / f"{split}.csv")
            folder = self._folder(root, split, rows[0][0])
            images += [(folder / name).relative_to(root).as_posix() for name, _ in rows]
            places += [landmark for _, landmark in rows]
            traversals += [split] * len(rows)
        return Manifest(images, places, traversals, root)

    def _rows(self, root: Path, path: Path) -> list[tuple[str, str]]:
        """File names and landmarks of one split."""
        try:
            with open_csv(path) as file:
                reader = csv.DictReader(file)
                if not {"filename", "landmark_id"} <= set(reader.fieldnames or ()):
                    found = ", ".join(reader.fieldnames or ()) or "none"
                    raise self.wrong(root, f"{path.name} has columns {found}, not filename and landmark_id")
                rows = [(row["filename"] or "", row["landmark_id"] or "") for row in reader]
        except FileNotFoundError:
            raise self.wrong(root, f"there is no {path.name}") from None
        except (OSError, UnicodeDecodeError, csv.Error) as error:
            raise self.wrong(root, f"{path.name} cannot be read ({error})") from None
        if not rows or not all(name and landmark for name, landmark in rows):
            raise self.wrong(root, f"{path.name} has no rows, or rows with blanks")
        return rows

    def _folder(self, root: Path, split: str, name: str) -> Path:
        """Folder that the file names of a split start from."""
        folders = [root / "images", root, root / split, root / "images" / split]
        found = next((folder for folder in folders if (folder / name).is_file()), None)
        if found is None:
            raise DatasetError(
                f"{split}.csv lists {name}, which is not in {folders[0]} nor in {root}. {self.obtain}"
            )
        return found
