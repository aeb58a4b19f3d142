# %% [markdown]
# # Membership of texts
#
# Was a text in the training data of a language model? Texts that were, and texts that were not,
# are priced by the model. Both must come from the same source: otherwise their words alone give
# them away, and the test is void. The survey measures that beside the attacks.

# %%
import small

import canary
from canary.membership.text_survey import survey_texts
from canary.signals.text_measuring import measure_texts

texts = small.sentences(160, seed=0)
member = [number < 80 for number in range(160)]
model = small.train(small.transformer(), texts[:80], epochs=30)

# %%
measured = measure_texts(
    canary.load(model, tokenizer=small.tokenizer),
    texts,
    member,
    signals="loss,zlib,min-k",
    start_token=small.START,
)
found = survey_texts(measured, texts)
print(found)

# %% [markdown]
# The first note is right: this model has read eleven words of English. What words alone reach is
# close to a coin, 0.5, because the two halves are of one source.

# %%
print(f"words alone: AUC {found.words.auc.value:.2f}")
canary.report(found, small.OUT / "texts.html", force=True)
