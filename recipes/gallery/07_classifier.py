# %% [markdown]
# # Attack a classifier
#
# Which samples was a classifier trained on? The attacker trains a shadow model on data of the same
# kind, learns thresholds from it, and applies them to the target.

# %%
import small

import canary
from canary import survey


def measured(seed):
    """A classifier that was trained on the first half of its samples."""
    x, y = small.points(800, seed)
    member = [number < 400 for number in range(800)]
    model = small.classifier(x[:400], y[:400], seed)
    return canary.measure(model, x, y, member=member, outputs="logits")


target, shadow = measured(seed=1), measured(seed=2)

# %% [markdown]
# One attack: the scores, and how well they separate members from nonmembers.

# %%
scores = canary.attack(target, "modified-entropy", shadow=shadow)
print(canary.evaluate(scores, target.member[0]))

# %% [markdown]
# All attacks that the signals allow, with a report.

# %%
found = survey(target, shadow, attacks="correctness,loss,entropy,modified-entropy")
print(found)
canary.report(found, small.OUT / "membership.html", force=True)
