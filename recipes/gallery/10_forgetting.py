# %% [markdown]
# # Has it been forgotten?
#
# Somebody asked for the deletion of their samples, and the model was made to unlearn them. The
# test compares it with a model that knows them and with models that never saw them.

# %%
import numpy as np
import small

import canary

x, y = small.points(600, seed=0)
to_forget = slice(0, 100)


def losses(model):
    """What a model says of the samples that are to be forgotten, in nats."""
    table = canary.measure(
        model, x[to_forget], y[to_forget], member=[False] * 100, outputs="logits"
    )
    return table.signal("loss")[0]


# %%
knows = losses(small.classifier(x, y, seed=1))
retrained = losses(small.classifier(x[100:], y[100:], seed=2))  # without them
unchanged = losses(small.classifier(x, y, seed=3))  # the deletion never happened
others = np.array(
    [losses(small.classifier(*small.points(500, seed), seed)) for seed in range(4, 23)]
)

# %% [markdown]
# 19 models that never saw the samples make p = 0.05 possible.

# %%
for name, target in (("retrained", retrained), ("unchanged", unchanged)):
    found = canary.forgotten(knows, target, others, seed=0)
    print(f"{name}: {found.answer}")
    print(found)
