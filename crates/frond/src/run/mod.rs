//! TODO room docs
