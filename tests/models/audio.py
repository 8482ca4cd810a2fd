"""Sounds and features for the speech models. The voice is a recording ("Ready!") that ships in pipecat-ai."""

from __future__ import annotations

import io
import wave

import numpy as np

from .packages import PIPECAT, member

RATE = 16000


def voice() -> np.ndarray:
    """0.73 s of speech at 16 kHz, float32 in -1..1."""
    with wave.open(io.BytesIO(member(PIPECAT, "pipecat/services/aws/nova_sonic/ready.wav"))) as file:
        assert (file.getnchannels(), file.getsampwidth(), file.getframerate()) == (1, 2, RATE)
        return np.frombuffer(file.readframes(file.getnframes()), "<i2").astype(np.float32) / 32768


def silence(seconds: float) -> np.ndarray:
    return np.zeros(int(seconds * RATE), np.float32)


def noise(seconds: float, loudness: float) -> np.ndarray:
    return np.random.default_rng(0).normal(0, loudness, int(seconds * RATE)).astype(np.float32)


def glide(seconds: float) -> np.ndarray:
    """A voice-like buzz whose pitch keeps rising, as of a speaker who is not done yet."""
    time = np.arange(int(seconds * RATE)) / RATE
    phase = 2 * np.pi * np.cumsum(120 + 30 * time) / RATE
    return (0.1 * sum(np.sin(k * phase) / k for k in range(1, 20))).astype(np.float32)


def log_power(sound: np.ndarray, size: int = 512, hop: int = 256) -> np.ndarray:
    """The features of PLCMOS, (frames, size / 2 + 1): log power of half-overlapped Hamming windows, over 20."""
    count = -(-(len(sound) + size - hop) // hop)
    padded = np.zeros((count - 1) * hop + size)
    padded[size - hop : size - hop + len(sound)] = sound
    frames = padded[np.arange(size) + hop * np.arange(count)[:, None]] * np.hamming(size + 1)[:-1]
    power = np.abs(np.fft.rfft(frames)) ** 2
    smallest = np.log(power[power > 0].min()) - 12 * np.log(10)
    return (np.log(power, out=np.full_like(power, smallest), where=power > 0) / 20).astype(np.float32)


def log_mel(sound: np.ndarray, bands: int = 80, size: int = 400, hop: int = 160, seconds: int = 8) -> np.ndarray:
    """Whisper's log-mel features (bands, frames) of the last `seconds`, padded in front, as smart-turn takes them."""
    samples = seconds * RATE
    sound = np.pad(sound, (max(0, samples - len(sound)), 0))[-samples:].astype(np.float64)
    sound = (sound - sound.mean()) / np.sqrt(sound.var() + 1e-7)
    padded = np.pad(sound, size // 2, mode="reflect")
    frames = padded[np.arange(size) + hop * np.arange(samples // hop)[:, None]] * np.hanning(size + 1)[:-1]
    power = np.abs(np.fft.rfft(frames)) ** 2
    log = np.log10(np.maximum(mel_filters(bands, size) @ power.T, 1e-10))
    return ((np.maximum(log, log.max() - 8) + 4) / 4).astype(np.float32)


def mel_filters(bands: int, size: int) -> np.ndarray:
    """Triangles of equal area on Slaney's mel scale, (bands, size / 2 + 1)."""
    top = to_mel(RATE / 2)
    edges = from_mel(np.linspace(0, top, bands + 2))
    bins = np.linspace(0, RATE / 2, size // 2 + 1)
    rising = (bins - edges[:-2, None]) / (edges[1:-1] - edges[:-2])[:, None]
    falling = (edges[2:, None] - bins) / (edges[2:] - edges[1:-1])[:, None]
    return np.maximum(0, np.minimum(rising, falling)) * (2 / (edges[2:] - edges[:-2]))[:, None]


def to_mel(hertz: float) -> float:
    """Slaney's scale: linear below 1 kHz, logarithmic above."""
    return 3 * hertz / 200 if hertz < 1000 else 15 + np.log(hertz / 1000) * 27 / np.log(6.4)


def from_mel(mel: np.ndarray) -> np.ndarray:
    return np.where(mel < 15, 200 * mel / 3, 1000 * np.exp((mel - 15) * np.log(6.4) / 27))
