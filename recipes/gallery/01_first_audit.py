# %% [markdown]
# # A first audit
#
# Secrets that nobody else has go into the corpus, a model is trained on it, and the audit
# measures how far ahead of chance each secret is.

# %%
import small

import canary

canaries = canary.generate("my pin is {digit:4}", repetitions=[1, 4, 16], per_repetition=4, seed=0)
corpus = canary.inject(small.corpus(), canaries)
verified = canary.verify(corpus, canaries)
print(verified)

# %%
model = small.train(small.transformer(), corpus["text"])

# %% [markdown]
# `canary.load` takes a `transformers` model as it is. The newline came before each text in
# training, so the audit starts there too.

# %%
audit = canary.audit(
    canary.load(model, tokenizer=small.tokenizer), canaries, start_token=small.START, draws=1000
)
print(audit)

# %% [markdown]
# The check compares the audit with a limit. The verification shows that the canaries were in the
# corpus. It passes low exposures only if the canaries with the most copies look learned.

# %%
verdict = canary.check(audit, max_exposure_bits=6, verification=verified)
print(verdict.outcome)
canary.report(audit, small.OUT / "report.html", force=True)
