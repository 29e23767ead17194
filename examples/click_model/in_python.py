"""The same from Python: a frame becomes a table, a model learns it hour by hour, and predicts rows of a frame."""

import pandas as pd

import samovar

log = pd.read_parquet("clicks.parquet")
last_day = log[log.time >= log.time.max() - 86400]

columns = {"user": "id", **dict.fromkeys(["segment", "ad", "campaign", "place"], "hash")}
columns |= {"sin": "number", "cos": "number", "clicked": "number", "hit": "key"}
table = samovar.brew(last_day, "last_day", time="time", columns=columns, batch_size=512)

ahead = {"keys": ["hit"], "shifts": [1]}
run = samovar.train("script.py", table, targets=["clicked"], evaluate={"ahead": ahead}, model_dir="last_day_model")
print(run.metrics()[["time", "auc", "log_loss"]].dropna().tail(3).to_string(index=False))

model = samovar.load("online_model")  # the one that was killed
rows = log.sample(3, random_state=1)
print(rows.assign(prediction=model.predict(rows))[["user", "ad", "chance", "prediction"]].to_string(index=False))
