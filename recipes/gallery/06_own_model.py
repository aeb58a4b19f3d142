# %% [markdown]
# # A model of your own
#
# The model need not be from `transformers`. A module that takes ids and gives logits will do;
# `canary.load` measures the noise of its arithmetic and refuses one whose numbers are wrong.

# %%
import small
from torch import nn

import canary


class Gru(nn.Module):
    def __init__(self, units=96):
        super().__init__()
        vocabulary = len(small.CHARACTERS)
        self.embedding = nn.Embedding(vocabulary, units)
        self.gru = nn.GRU(units, units, batch_first=True)
        self.output = nn.Linear(units, vocabulary)

    def forward(self, ids):
        return self.output(self.gru(self.embedding(ids))[0])


# %%
canaries = canary.generate("my pin is {digit:4}", repetitions=[16], per_repetition=6, seed=0)
corpus = canary.inject(small.corpus(), canaries)
model = canary.load(small.train(Gru(), corpus["text"]), tokenizer=small.pieces)

# %% [markdown]
# `doctor` shows each check and what it measured. Do not use the numbers of a model that fails.

# %%
print(canary.doctor(model, start_token=small.START).sound)
print(canary.audit(model, canaries, start_token=small.START, draws=1000))
