"""InfoCal [Sha2023]: the model with its guider, the discriminator, the language model, the training step."""
