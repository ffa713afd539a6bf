//! What only the room itself can see.
