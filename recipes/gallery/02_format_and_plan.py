# %% [markdown]
# # Choose a format, and plan the audit
#
# A canary should look like the secrets in your data. The number of possible fills limits the
# exposure that a canary can have.

# %%
import canary

for text in ("my pin is {digit:4}", "my number is {digit:3}-{digit:4}", "the key is {letter:12}"):
    secret = canary.Format(text)
    print(f"{secret.masked}: {secret.size:,} fills, at most {secret.bits:.1f} bits")

# %% [markdown]
# A known part is fixed text. Then only the rest is a secret.

# %%
known = canary.Format("my number is {digit:3}-{digit:4}").given("555-")
print(known.size)

# %% [markdown]
# Before anything is trained, the plan states what an audit of this size can show. With one
# canary for each number of copies it can decide little; with sixteen it decides more.

# %%
for each in (1, 16):
    print(canary.plan("my pin is {digit:4}", per_repetition=each, max_exposure_bits=6))
