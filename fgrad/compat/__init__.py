"""Other libraries' spellings for what fgrad does."""
