"""Operations on whole sessions: history, export, fork, revert and deletion."""
