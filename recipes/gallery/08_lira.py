# %% [markdown]
# # LiRA: many models, each sample in half of them
#
# For each sample, half of the models were trained on it and half were not. That shows what one
# sample changes, and finds members at low false positive rates.

# %%
import small

import canary
from canary.fleet.splits import halves
from canary.fleet.torch_training import TorchTraining
from canary.membership.aggregate import evaluate_models
from canary.membership.many import attack_models
from canary.workers.local import Here

training = TorchTraining(build=small.network, epochs=40, batch_size=32, learning_rate=0.05)
fleet = canary.Fleet(
    training, small.points(400, seed=0), halves(), n_models=16, seed=0, outputs="logits"
)

# %% [markdown]
# With a folder, a fleet that was killed continues where it was. Small networks are trained
# together: `at_once` says how many.

# %%
table = fleet.run(folder="fleet", workers=Here(at_once=16))
print(table)

# %% [markdown]
# Each model is attacked with the help of the others. LiRA is compared with one threshold on the
# loss.

# %%
for name in ("P", "lira-online-fixed"):
    print(evaluate_models(attack_models(table, name)))
