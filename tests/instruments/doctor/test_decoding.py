"""Errors that are given as numbers, and messages of systems in other languages."""

from __future__ import annotations

import pytest

from ownlab.instruments.doctor.decoding import with_decoded_messages
from ownlab.instruments.doctor.diagnosis import diagnose
from ownlab.instruments.doctor.paste.reader import read_paste
from ownlab.instruments.doctor.records import Case, Message
from ownlab.machine.records import Machine

# In order: the code of the first finding, the message.
NUMBERS = [
    ("driver-old", "[F] Check failed: error == cudaSuccess (35 vs. 0)"),
    ("driver-old", "[TensorRT] ERROR: CUDA initialization failure with error: 35"),
    ("no-kernel", "CUDA error 209 at matmul.cu:35"),
    ("fwd", "CUDA runtime error: 804"),
    ("combo", "cudaGetDeviceCount returned 803"),
    ("ptx-toolchain", "cuModuleLoadData returned error 222"),
    ("illegal-access", "cuCtxSynchronize returned error 700"),
    ("invalid-ordinal", "CUDA error: 101"),
    ("device-assert", "CUDA error 710"),
    ("cublas", "CUBLAS error: 13 at ggml-cuda.cu"),
    ("unfit-library", "Process finished with exit code -1073741819 (0xC0000005)"),
    ("unfit-library", "torch: subprocess returned non-zero exit status 3221225477"),
    ("framework-broken", "llama runner process has terminated: exit status 0xc0000135"),
    ("ptx-toolchain", "jit: code=222(cudaErrorUnsupportedPtxVersion)"),
    ("no-visible-gpu", "cuInit failed: CUDA_ERROR_NO_DEVICE"),
]
LANGUAGES = [
    ("library-missing", "ImportError: libcudart.so.11.0: Kann die Shared-Object-Datei nicht öffnen: Datei oder Verzeichnis nicht gefunden"),
    ("library-missing", "libcublas.so.11: 无法打开共享对象文件: 没有那个文件或目录"),
    ("no-driver", "ImportError: libcuda.so.1: Невозможно открыть файл общего объекта: Нет такого файла или каталога"),
    ("no-driver", "bash: nvidia-smi: 未找到命令"),
    ("no-driver", 'Der Befehl "nvidia-smi" ist entweder falsch geschrieben oder konnte nicht gefunden werden.'),
    ("unfit-library", "Speicherzugriffsfehler (Speicherabzug geschrieben)"),
    ("oom-killed", "Getötet"),
    ("no-driver", "'nvidia-smi' 不是内部或外部命令，也不是可运行的程序\n或批处理文件。"),
    ("no-driver", "nvidia-smi : 无法将“nvidia-smi”项识别为 cmdlet、函数、脚本文件或可运行程序的名称。请检查名称的拼写，然后再试一次。"),
    ("framework-broken", "ImportError: DLL load failed while importing _C: 找不到指定的模块。"),
    ("framework-broken", "OSError: [WinError 126] 找不到指定的模块。 Error loading \"D:\\anaconda3\\lib\\site-packages\\torch\\lib\\fbgemm.dll\""),
    ("dev-permission", "PermissionError: [Errno 13] 权限不够: '/dev/nvidia0'"),
    ("several-causes", "ERROR: Could not install packages due to an OSError: [WinError 5] 拒绝访问。: 'd:\\anaconda3\\lib\\asmjit.dll'"),
    ("module-rejected", "modprobe: ERROR: could not insert 'nvidia': Schlüssel wurde vom Dienst abgewiesen"),
]  # fmt: skip


@pytest.mark.parametrize(("code", "message"), NUMBERS + LANGUAGES)
def test_what_is_printed_as_a_number_or_in_another_language_has_its_finding(code: str, message: str) -> None:
    assert diagnose(read_paste(message)).findings[0].code == code


@pytest.mark.parametrize(
    "message",
    [
        "Training on cuda:0, error 0.35 after 100 steps",
        "cuda error rate 35% of 700 samples",
        "CUDA 12.4, cuDNN 9.1, driver 550.54",
        "cudaGetDeviceCount returned 2 devices",
        "CUDA error: an illegal memory access was encountered (700)",
        "ggml-cuda.cu:106: CUDA error (status code: 500)",
        "Process finished with exit code 0",
        "step 137, loss 1.35",
    ],
)
def test_other_numbers_are_no_errors(message: str) -> None:
    case = Case(Machine(origin="pasted"), (Message(message, "pasted text"),))
    assert with_decoded_messages(case) is case


def test_a_decoded_message_names_its_origin() -> None:
    (finding, *_) = diagnose(read_paste("CUDA error 209 at matmul.cu:35")).findings
    assert finding.evidence[0].startswith("pasted text, error by its number: CUDA error 209: ")
