"""The workshop's own code: everything around the stages that a learner never edits."""
