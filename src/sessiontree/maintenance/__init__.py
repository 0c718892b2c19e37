"""Looking after what sessions leave on disk: the trash, damage, what nothing needs any more."""
