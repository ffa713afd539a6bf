//! Striped values: one value per stripe, each on a cache line of its own. Threads (or keys, by a
//! number of theirs) are spread over the stripes, so that they seldom write to the same cache line.
//!
//! Threads: all. Cost of finding the calling thread's stripe: some instructions, no lock.

use crate::sync::thread_number;

/// A value on a cache line of its own.
#[derive(Debug, Default)]
#[repr(align(64))]
pub(crate) struct CacheLine<T>(pub T);

/// `N` stripes. With a power of two, finding a stripe takes no division.
#[derive(Debug)]
pub(crate) struct Striped<T, const N: usize>(Box<[CacheLine<T>; N]>);

impl<T, const N: usize> Striped<T, N> {
    /// Creates the stripes, each with its own value.
    pub fn new(mut make: impl FnMut() -> T) -> Self {
        Self(Box::new(std::array::from_fn(|_| CacheLine(make()))))
    }

    /// The stripe of the calling thread, which other threads may share.
    #[inline]
    pub fn mine(&self) -> &T {
        self.at(thread_number())
    }

    /// The stripe with this number, modulo the number of stripes.
    #[inline]
    pub fn at(&self, number: usize) -> &T {
        &self.0[number % N].0
    }

    /// All stripes.
    pub fn iter(&self) -> impl Iterator<Item = &T> {
        self.0.iter().map(|line| &line.0)
    }
}

impl<T: Default, const N: usize> Default for Striped<T, N> {
    fn default() -> Self {
        Self::new(T::default)
    }
}
