"""The study of questions to the data: error, reconstruction, what an auditor refuses."""
