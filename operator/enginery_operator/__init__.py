"""The operator: watches InferenceModels and Tenants and makes the cluster and the model store agree with them."""
