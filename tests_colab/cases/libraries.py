"""Notebooks in the style of a well-known library, course or project."""

from __future__ import annotations

from tests_colab.cases.case import HTML, TIMES, Case, like

__all__ = ["CASES"]

_NO_WANDB = (
    "NotebookAccessError: Notebook does not have access to secret WANDB_API_KEY. "
    "Grant it: `ownlab secrets grant WANDB_API_KEY NOTEBOOK`.\n"
)

CASES = (
    Case(
        "fastai_lesson",
        texts={
            "setup": "on Colab: /content\n",
            "package": "Writing tinyvision.py\n",
            "imports": "40\n",
            "train": like(r"epoch 0: [^\n]*0/40.*\nepoch 0: loss 0.0133\nepoch 1: .*\nepoch 1: loss 0.0002\n"),
            "uploader": "FileUpload(value=(), description='Upload')\n",
            "predict": "ring, 100% sure\n",
            "export": "export.pkl\nsample_data\ntinyvision.py\n",
        },
        displays={"train": "application/vnd.jupyter.widget-view", "uploader": "application/vnd.jupyter.widget-view"},
    ),
    Case(
        "huggingface_token",
        environ={"TINY_REGION": "eu"},
        texts={
            "hub": "Writing tinyhub.py\n",
            "cache": "env: HF_HOME=/content/cache\n",
            "token": "token of 25 characters: hf_…\n",
            "model": "downloaded: /content/cache/hub/ownlab--tiny-model/config.json\n"
            "from the cache: /content/cache/hub/ownlab--tiny-model/config.json\n",
            "right": "True\n",
            "others": _NO_WANDB
            + "SecretNotFoundError: Secret OPENAI_API_KEY does not exist. Add it in the panel Secrets of the lab (the key on the left), or set it: `ownlab secrets set OPENAI_API_KEY`.\n",
            "invalid": "Please enter a valid secret name\nSecret name cannot contain spaces or whitespace\n",
            "environment": "'eu'\n",
            "script": "HF_HOME=/content/cache\n0\n",
        },
    ),
    Case("secret_not_granted", code=1, reason="^NotebookAccessError: ", texts={"key": _NO_WANDB}),
    Case(
        "tensorflow_docs",
        texts={
            "version": "%tensorflow_version has no effect: only TensorFlow 2 is available.\n",
            "old": like(r"UsageError: TensorFlow 1 needs Python 3.7 or older[^\n]*\n"),
            "install": "pip\n",
            "tf": "Writing tinyflow.py\n",
            "imports": "2.99.0\n",
            "train": "Epoch 1/3\nEpoch 2/3\nEpoch 3/3\n",
            "listing": like(r"step-0001\.json\s+step-0002\.json\s+step-0003\.json\n"),
            "load": "[3, 6]\n",
            "glob": "6\n",
            "tensorboard": HTML,
        },
        displays={"tensorboard": "TensorBoard would stand here"},
    ),
    Case(
        "stable_diffusion_forms",
        parameters=(
            "use_drive=true", "drive_subfolder=Bilder/été", "kind=deep", "frames=12", "lens=55", "goes_on=True", 'stamp=x"y',
            "guidance=12", "seed=9", "method=ddim", "precision=bf16", "tiled=False", "copies=1", 'prompts=["one tree"]',
            "day=2027-12-24",
        ),
        texts={
            "folders": "Mounted at /content/drive\n/content/weights\n/content/drive/MyDrive/Bilder/été\n",
            "paint": "2027-12-24_00_tree_9_ddim.txt\none tree guidance=12 precision='bf16' tiled=False",
            "settings": '{"kind": "deep", "frames": 12, "edges": "mirror", "turn": "0:(0)", "grow": "0:(1.01), 60:(1.5)", '
            '"by_depth": true, "depth_share": 0.3, "plane": 150, "lens": 55, "goes_on": true, "stamp": "x\\"y"}\n',
        },
        drive={"Bilder/été/2027-12-24_00_tree_9_ddim.txt": "^one tree "},
    ),
    Case(
        "zerocost_forms",
        parameters=(
            "Network_name=first", "Network_folder=/content/gdrive/MyDrive/networks", "Rounds=40", "Standard_settings=no",
            "Step_size=0.01", "Turn_images=yes", "Times=3",
        ),
        texts={
            "version": "edition 0.3\n",
            "drive": "Mounted at /content/gdrive\n",
            "parameters": "Ready.\n",
            "augmentation": "each image is used 3 times\n",
            "train": "15 pairs, weight 3.000\n",
            "quality": "40 rounds: it learns\n",
        },
        drive={"networks/first/Quality Control/losses.csv": r"^round,loss\s+0,99\.0\s", "micro/clean/5.tif": "^15$"},
    ),
    Case(
        "colabfold",
        parameters=(
            "sequence=aaag CCC:TTT", "job=second / job", "relaxed=1", "templates=own", "ROUNDS=2", "MODE=slow"
        ),
        uploads={"mine.pdb": b"ATOM"},
        downloads={"secondjob_14374.zip": "secondjob_14374_best.pdb.*mine.pdb"},
        texts={
            "job": "Saving mine.pdb to mine.pdb\nsecondjob_14374: 2 chain(s), 10 residues\n",
            "install": like(r"installing the folder\ninstalling the tools\n" + TIMES),
            "again": "relax=True templates=True release=3.x\nFOLD_READY\nSEARCH_READY\nTOOLS_READY\n",
            "search": "slow round 1\nslow round 2\n",
            "predict": HTML,
        },
        displays={"predict": "<b>secondjob_14374_best.pdb</b>"},
    ),
)  # fmt: skip
