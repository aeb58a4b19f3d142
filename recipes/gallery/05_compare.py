# %% [markdown]
# # Compare two trainings
#
# The same corpus, trained briefly and trained long. Which one would you ship? Exposure alone does
# not decide: the loss on a test text belongs beside it.

# %%
import small

import canary

canaries = canary.generate("my pin is {digit:4}", repetitions=[4, 16], per_repetition=4, seed=0)
corpus = canary.inject(small.corpus(), canaries)
test = small.sentences(50, seed=9)

# %%
audits, losses = [], []
for epochs in (3, 12):
    trained = small.train(small.transformer(), corpus["text"], epochs=epochs)
    model = canary.load(trained, tokenizer=small.tokenizer)
    audits.append(canary.audit(model, canaries, start_token=small.START, draws=1000))
    bits = canary.score(model, test, start_token=small.START).sum()
    losses.append(0.693147 * bits / sum(map(len, test)))  # nats per token: each is a character

# %% [markdown]
# A list of audits makes a comparison. So does `canary.plot`.

# %%
for audit, loss in zip(audits, losses, strict=True):
    print(f"test loss {loss:.2f} nats per token, injected: p = {audit.injected_p.p_value:.1g}")
canary.report(
    audits,
    small.OUT / "comparison.html",
    labels=["3 epochs", "12 epochs"],
    test_losses=losses,
    force=True,
)
