"""Self-attention over distances in raw torch, written from the papers, with the parameters of a module of ours.

x is (T, features), one sequence.
"""

import torch


def sinusoids(distance, size):
    """(size,): sin(distance / 10000^(2m / size)) for m = 0 .. size/2 - 1, then the cosines.

    Vaswani et al. 2017, section 3.5 ("each dimension corresponds to a sinusoid"), used for distances by Dai et al. 2019.
    """
    angles = [distance / 10000 ** (2 * m / size) for m in range(size // 2)]
    angles = torch.tensor(angles, dtype=torch.float64)
    return torch.cat([angles.sin(), angles.cos(), torch.zeros(size % 2, dtype=torch.float64)]).float()


def vector(module, distance):
    """Of one distance, for each head: (heads, key features per head)."""
    shape = [dim.extent for dim in (module.num_heads, module.key_dim_per_head)]
    if module.learned_pos_emb is None:
        r = sinusoids(distance, module.pos_emb_feat_dim.extent)
    else:
        clipping = module.learned_pos_emb.clipping
        r = module.learned_pos_emb.pos_emb.raw_tensor[max(-clipping, min(distance, clipping)) + clipping]
    r = r if module.linear_pos is None else r @ module.linear_pos.weight.raw_tensor
    return r.reshape(shape) if module.separate_pos_emb_per_head else r.expand(shape)


def relative_attention(module, x, causal=False):
    """(T, in) -> (T, out): Dai et al. 2019, the equation of A^rel, written out pair by pair."""
    heads, key, value = (
        dim.extent for dim in (module.num_heads, module.key_dim_per_head, module.value_dim_per_head)
    )  # fmt: skip
    zero = torch.zeros(heads, key)
    u, v = (zero if bias is None else bias.raw_tensor for bias in (module.pos_bias_u, module.pos_bias_v))
    results = []
    all_qkv = (x @ module.qkv.weight.raw_tensor + module.qkv.bias.raw_tensor).split(2 * key + value, -1)
    for head, qkv in enumerate(all_qkv):
        q, k, values = qkv.split([key, key, value], -1)
        energy = torch.full((len(x), len(x)), float("-inf"))
        for i in range(len(x)):
            for j in range(i + 1 if causal else len(x)):
                energy[i, j] = (q[i] + u[head]) @ k[j] + (q[i] + v[head]) @ vector(module, j - i)[head]
        results.append(torch.softmax(energy / key**0.5, -1) @ values)
    return torch.cat(results, -1) @ module.proj.weight.raw_tensor + module.proj.bias.raw_tensor
