def train(model, update, job)
