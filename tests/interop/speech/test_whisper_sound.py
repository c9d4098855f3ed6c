"""The sound above the cross-attention of Whisper, whose sources are frames of 20 ms."""

import numpy as np
import pytest
import torch

import rfnb as rf

transformers = pytest.importorskip("transformers")


def test_the_sources_of_cross_attention_are_frames_of_the_sound():
    config = transformers.WhisperConfig(
        vocab_size=20, num_mel_bins=8, d_model=16, encoder_layers=1, decoder_layers=1, encoder_attention_heads=2,
        decoder_attention_heads=2, encoder_ffn_dim=16, decoder_ffn_dim=16, max_source_positions=30, max_target_positions=10,
        pad_token_id=0, bos_token_id=1, eos_token_id=2, decoder_start_token_id=1,
    )  # fmt: skip
    torch.manual_seed(0)
    model = transformers.WhisperModel(config).eval()
    features = torch.randn(1, 8, 60)  # mel frames of 10 ms, halved by the encoder
    with torch.no_grad(), rf.record(model=model) as trace:
        model(features, decoder_input_ids=torch.tensor([[1, 5, 7]]))
    (path,) = [path for path in trace.attention if path.endswith("encoder_attn")]
    sound = np.sin(np.arange(9600) * 0.3)  # 0.6 s
    view = rf.viz.attention(trace.attention[path], samples=sound, sampling_rate=16_000, frame_shift=0.02)
    (seq,) = view.spec.head["seqs"]
    assert (seq["row_len"], seq["col_len"]) == (3, 30)
    assert view.spec.head["rail"]["cols"] == [60]  # two columns of 10 ms per source
    assert view.spec.blocks["rail"].all()  # the sound ends where the sources end
    assert "sound: log-mel spectrogram" in view.text()
