# %% [markdown]
# # Measure while training
#
# A monitor measures exposure during the training, and shows when the model begins to memorize.
# This loop is our own; `ExposureCallback` does the same in a `transformers` Trainer.

# %%
import small

import canary
from canary.plugins.monitor import ExposureMonitor

canaries = canary.generate("my pin is {digit:4}", repetitions=[16], per_repetition=4, seed=0)
corpus = canary.inject(small.corpus(), canaries)
monitor = ExposureMonitor(
    canaries,
    tokenizer=small.tokenizer,
    every=40,
    draws=500,
    share=None,  # measure at each of these steps, whatever time it takes
    path=small.OUT / "history.json",
    start_token=small.START,
)

# %%
model = small.transformer()
monitor.start(model)
small.train(model, corpus["text"], after_step=monitor.step)
monitor.finish()

# %% [markdown]
# The median exposure of the canaries rises while the loss falls.

# %%
print(monitor.history)
canary.report(monitor.history, small.OUT / "training.html", force=True)
