"""Files in and out, the drive, and paths."""

from __future__ import annotations

from tests_colab.cases.case import Case, like

__all__ = ["CASES"]

_NO_UPLOADS = (
    "RuntimeError: files.upload() needs a page, and this notebook runs without one. "
    "`ownlab run NOTEBOOK --uploads DIR` takes the files of DIR.\n"
)

CASES = (
    Case(
        "upload_download",
        uploads={"train.csv": b"x,y\n1,2\n2,3.5\n", "labels.txt": b"cat\ndog"},
        downloads={
            "results.zip": r"data/raw/train\.csv.*train\.csv",
            "labels.txt": "^cat\ndog$",
            "logs/run1/events.txt": "^step 1$",
        },
        texts={
            "upload": "Saving labels.txt to labels.txt\nSaving train.csv to train.csv\n"
            "labels.txt: 7 bytes, the same on disk: True\ntrain.csv: 14 bytes, the same on disk: True\n",
            "read": "5.5\n",
            "again": "Saving labels.txt to labels.txt\nSaving train.csv to train (1).csv\n['labels.txt', 'train (1).csv']\n",
            "target": "Saving labels.txt to data/raw/labels.txt\nSaving train.csv to data/raw/train.csv\n"
            "['data/raw/labels.txt', 'data/raw/train.csv']\n",
            "one": "Saving labels.txt to labels.txt\ncat\ndog\n",
            "other": "ValueError\n",
            "nothing": "Cannot find file: no_such_file.h5\n",
            "view": "/content/labels.txt\n",
        },
    ),
    Case("upload_alone", code=1, reason="--uploads DIR", texts={"upload": _NO_UPLOADS}),
    Case(
        "drive_train",
        texts={
            "mount": "Mounted at /content/drive\n",
            "again": "Drive already mounted at /content/drive; to attempt to forcibly remount, "
            'call drive.mount("/content/drive", force_remount=True).\n',
            "places": "My Drive\nMyDrive\nShareddrives\n(True, True)\n",
            "train": like(r"epoch-00\.json\s+epoch-01\.json\s+epoch-02\.json\n"),
            "link": '{"epoch": 2, "loss": 0.3333333333333333}',
            "copy": like(r"README\.md\s+anscombe\.json\n"),
            "flush": "False\n",
            "twice": "Drive not mounted, so nothing to flush and unmount.\n",
        },
        drive={
            "Colab Notebooks/checkpoints/epoch-00.json": '^{"epoch": 0, "loss": 1.0}$',
            "sample_data/anscombe.json": '"Series": "IV"',
        },
    ),
    Case(
        "drive_resume",
        after="drive_train",
        texts={
            "mount": "Mounted at /content/gdrive\n",
            "find": "3 checkpoints, going on after epoch 2 (loss 0.333)\n",
            "cd": "/content/gdrive/MyDrive/Colab Notebooks\nepoch-03.json\n/content\n",
            "remount": "Mounted at /content/gdrive\n4\n",
            "errors": "Mountpoint must not contain a space\nMountpoint must not already contain files\n"
            "Mountpoint must be in a directory that exists\n",
            "readonly": "Mounted at /content/drive\nRead-only file system\n",
            "rm": "Mounted at /content/drive\n4\n",
        },
        drive={"Colab Notebooks/checkpoints/epoch-03.json": '^{"epoch": 3, "loss": 0.25}$'},
    ),
    Case(
        "hard_coded_paths",
        texts={
            "sample": "{'I': 7.5, 'II': 7.5, 'III': 7.5, 'IV': 7.5}\n",
            "relative": like(r"README\.md\s+anscombe\.json\nThis folder contains small sample data, [^\n]*\n"),
            "walk": "/content/dataset 0\n/content/dataset/train 0\n/content/dataset/train/cats 3\n/content/dataset/train/dogs 1\n",
            "zip": "".join(f"/content/unpacked/dataset/train/{each}.jpg\n" for each in ("cats/1", "cats/2", "cats/3", "dogs/1")),
            "clean": "False\n",
            "disk": "(True, True)\n",
            "resolved": "(PosixPath('/content/dataset.zip'), '/content', '/content')\n",
            "tempfile": "/content\n",
            "own": "True\n",
        },
    ),
)  # fmt: skip
