# %% [markdown]
# # Extract a secret, with proof
#
# The search finds the most likely fill of a format and proves that no other is more likely. For a
# memorized secret it takes a few dozen queries, where guessing takes half a million.

# %%
import small

import canary

secret = canary.generate(
    "my number is {digit:6}", repetitions=[32], per_repetition=1, controls=1, seed=0
)
corpus = canary.inject(small.corpus(), secret)
model = small.train(small.transformer(), corpus["text"])

# %%
found = canary.extract(
    canary.load(model, tokenizer=small.tokenizer),
    "my number is {digit:6}",
    canaries=secret,
    start_token=small.START,
)
print(found)

# %% [markdown]
# The fill is a secret, so printing a result masks it. It is there all the same.

# %%
print(found.candidates[0].fill == secret.injected[0].fill)
print(f"{found.queries:,} queries; guessing takes {found.random_guesses:,.0f}")
