"""Speech models: silero VAD (faster-whisper 1.2.1), PLCMOS and DNSMOS (speechmos 0.0.1.1), smart-turn (pipecat-ai)."""

from __future__ import annotations

import numpy as np
import pytest

import webnn_cl

from .audio import glide, log_mel, log_power, noise, silence, voice
from .compare import INT8, run_and_compare
from .packages import FASTER_WHISPER, PIPECAT, SPEECHMOS, member

pytestmark = pytest.mark.models
VAD = "faster_whisper/assets/silero_vad_v6.onnx"
PLCMOS = "speechmos/plcmos_models/plcmos_v2.onnx"
DNSMOS = "speechmos/dnsmos_models/"
SMART_TURN = "pipecat/audio/turn/smart_turn/data/smart-turn-v3.2-cpu.onnx"


def vad_windows(sound: np.ndarray, step: int = 512, before: int = 64) -> np.ndarray:
    """Windows of 512 samples, each behind the last 64 of the one before it."""
    padded = np.pad(sound, (before, -len(sound) % step))
    return padded[np.arange(before + step) + step * np.arange((len(padded) - before) // step)[:, None]]


def test_vad_marks_speech_over_a_whole_sequence(context: webnn_cl.MLContext) -> None:
    """One LSTM over 132 steps: speech where there is some, none in silence, noise and at the ends."""
    sound = np.concatenate([silence(1), voice(), silence(1), voice(), noise(0.5, 0.02)])
    state = np.zeros((1, 1, 128), np.float32)
    inputs = {"input": vad_windows(sound), "h": state, "c": state}
    speech, _, _ = run_and_compare(member(FASTER_WHISPER, VAD), context, inputs)
    seconds = np.arange(len(speech)) * 512 / 16000
    spoken = ((seconds > 1.15) & (seconds < 1.4)) | ((seconds > 2.9) & (seconds < 3.1))
    quiet = (seconds < 1) | ((seconds > 1.8) & (seconds < 2.7)) | (seconds > 3.6)
    assert speech[spoken].min() > 0.5
    assert speech[quiet].max() < 0.3


def test_vad_carries_its_state(context: webnn_cl.MLContext) -> None:
    """Two halves with the state handed on give what the whole gives; each half is another shape of one session."""
    session = webnn_cl.onnx.InferenceSession(member(FASTER_WHISPER, VAD), context)
    windows = vad_windows(np.concatenate([voice(), silence(0.2)]))
    h = c = np.zeros((1, 1, 128), np.float32)
    whole, _, _ = session.run(None, {"input": windows, "h": h, "c": c})
    parts = []
    for part in np.split(windows, [11]):
        speech, h, c = session.run(None, {"input": part, "h": h, "c": c})
        parts.append(speech)
    np.testing.assert_allclose(np.concatenate(parts), whole, atol=1e-5)


def test_plcmos_hears_lost_packets(context: webnn_cl.MLContext) -> None:
    """Two bidirectional GRUs over 180 frames: 40 ms lost out of each 200 cost well over a point of five."""
    model = member(SPEECHMOS, PLCMOS)
    clean = np.tile(np.concatenate([voice(), silence(0.25)]), 3)
    lost = clean * (np.arange(len(clean)) % 3200 >= 640)
    scores = []
    for sound in (clean, lost):
        rater = np.random.default_rng(1).normal(size=(1, 64)).astype(np.float32)
        inputs = {"degraded_audio": log_power(sound)[None, None], "rater_embed": rater}
        (score,) = run_and_compare(model, context, inputs)
        assert score.shape == ()
        scores.append(float(score))
    assert 1 <= scores[1] < scores[0] - 1 <= 4


def test_dnsmos_prefers_clean_speech(context: webnn_cl.MLContext) -> None:
    """Signal, background, overall: noise costs the background over two points of five."""
    model = member(SPEECHMOS, DNSMOS + "sig_bak_ovr.onnx")
    clean = np.resize(voice(), 144160)
    (good,) = run_and_compare(model, context, {"input_1": clean[None]})
    noisy = clean + np.resize(noise(1, 0.02), clean.size)
    (bad,) = webnn_cl.onnx.InferenceSession(model, context).run(None, {"input_1": noisy[None]})
    assert good[0, 1] > 4 and bad[0, 1] < 2
    assert good[0, 2] > bad[0, 2] + 1


@pytest.mark.parametrize(("name", "shape"), [("model_v8", (1, 900, 120)), ("sig", (1, 901, 161))])
def test_dnsmos_parts(context: webnn_cl.MLContext, name: str, shape: tuple[int, ...]) -> None:
    features = np.random.default_rng(2).normal(0, 1, shape).astype(np.float32)
    run_and_compare(member(SPEECHMOS, f"{DNSMOS}{name}.onnx"), context, {"input_1": features})


def test_smart_turn_knows_who_is_done(context: webnn_cl.MLContext) -> None:
    """A transformer in 8 bits (quantize and dequantize nodes): a whole word is a turn, a rising voice is not."""
    features = np.stack([log_mel(voice()), log_mel(glide(2))])
    (done,) = run_and_compare(member(PIPECAT, SMART_TURN), context, {"input_features": features}, INT8)
    assert done[0, 0] > 0.9 and done[1, 0] < 0.1
