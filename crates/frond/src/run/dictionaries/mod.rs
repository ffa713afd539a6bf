//! Choice and training of the dictionary with which the leaves of a tree are compressed.
//!
//! While a leaf is written, the builder keeps a sample of its blocks, spread over the leaf. At the
//! end of the leaf, a dictionary is trained on three in four of these blocks. Dictionaries of
//! several lengths, and none at all, are then compared on the others. The best one, or none, serves
//! the following leaves. Training is repeated when a leaf takes a tenth more stored bytes per raw
//! byte than the first leaf after the last training. Each training doubles the number of leaves
//! before the next. A leaf that is merged keeps its dictionary, or none of its blocks could be
//! carried over; a leaf without one takes the latest.
//!
//! Invariants
//! 1. What is learned never determines how a block is read: only its run does.
//! 2. The number of trainings is at most logarithmic in the leaves that are written while the tree
//!    is open.
//!
//! Threads: all; the lock is held for some comparisons, twice per run.

use crate::{
    block::{Codec, Dictionary, DictionaryEncoder, train},
    sync::{Arc, Mutex},
};

/// Lengths that are tried, longest first. The shorter ones are the ends of the longest.
const LENGTHS: [usize; 3] = [16 << 10, 8 << 10, 4 << 10];
/// The most blocks that are kept of a leaf, and the longest one that is kept.
const SAMPLES_MAX: usize = 24;
const SAMPLE_BYTES_MAX: usize = 64 << 10;
/// One sampled block in this many is used to evaluate dictionaries instead of training them.
const JUDGES_ONE_IN: usize = 4;
/// The fewest samples, and the shortest leaf, that are worth training on: a short leaf says nothing
/// about long ones.
const SAMPLES_MIN: usize = 12;
const TRAINING_BYTES_MIN: u64 = 128 << 10;
/// A dictionary must save at least 1/32 of the bytes: a block that uses one takes a third longer to
/// decode.
const SAVED_ONE_IN: u64 = 32;
/// Number of leaves after which a tree may train for the second time.
const PAUSE: u32 = 8;
/// The assumed savings (1/16) of a dictionary about which nothing is known except that it was once
/// chosen.
const SAVES_ONE_IN: f64 = 16.0;

/// What a tree knows about its dictionary.
#[derive(Debug, Default)]
pub(super) struct Dictionaries(Mutex<Learned>);

#[derive(Debug, Default)]
struct Learned {
    latest: Option<Chosen>,
    /// Stored bytes per raw byte of the first leaf that was written with the last result.
    expected_ratio: Option<f64>,
    /// Number of leaves since; `None` if there was never a training.
    leaves: Option<u32>,
    /// Number of leaves before the next training.
    pause: u32,
}

/// A dictionary that saves more than it costs.
#[derive(Clone, Debug)]
struct Chosen {
    dictionary: Arc<Dictionary>,
    /// The fraction of the blocks' stored bytes that it saves.
    saves: f64,
}

/// The dictionary that a leaf is written with, and the samples it collects.
#[derive(Debug, Default)]
pub(super) struct UnderDictionary {
    chosen: Option<Chosen>,
    /// Created for the first block.
    encoder: Option<DictionaryEncoder>,
    samples: Option<Box<Samples>>,
}

/// The codec's input for some of a leaf's blocks.
#[derive(Debug)]
struct Samples {
    kept: Vec<Vec<u8>>,
    /// One block in this many is kept.
    stride: usize,
    blocks: usize,
}

impl UnderDictionary {
    /// The state for a run that may carry blocks with this dictionary, if any.
    pub fn base(dictionary: Option<&Arc<Dictionary>>) -> Self {
        let known = |dictionary: &Arc<Dictionary>| Chosen {
            dictionary: dictionary.clone(),
            saves: 1.0 / SAVES_ONE_IN,
        };
        Self { chosen: dictionary.map(known), ..Self::default() }
    }

    /// The dictionary.
    pub fn dictionary(&self) -> Option<&Arc<Dictionary>> {
        self.chosen.as_ref().map(|chosen| &chosen.dictionary)
    }

    /// The encoder of the dictionary.
    pub fn encoder(&mut self) -> Option<&DictionaryEncoder> {
        if self.encoder.is_none() {
            self.encoder = DictionaryEncoder::new(self.dictionary()?.clone());
        }
        self.encoder.as_ref()
    }

    /// True if blocks that take `bytes` with the dictionary save less than the dictionary itself
    /// takes.
    pub fn is_in_vain(&self, bytes: u64) -> bool {
        self.chosen.as_ref().is_some_and(|Chosen { dictionary, saves }| {
            bytes as f64 * saves / (1.0 - saves) < dictionary.to_disk().len() as f64
        })
    }

    /// True if the codec's input of the next block should be kept.
    pub fn wants_sample(&mut self) -> bool {
        self.samples.as_mut().is_some_and(|samples| {
            samples.blocks += 1;
            samples.blocks.is_multiple_of(samples.stride)
        })
    }

    /// Keeps the codec's input of a block as a sample.
    pub fn keep(&mut self, given: &[u8]) {
        let Some(samples) = self.samples.as_mut().filter(|_| given.len() <= SAMPLE_BYTES_MAX)
        else {
            return;
        };
        if samples.kept.len() >= SAMPLES_MAX {
            // Every other one of the samples so far is enough.
            let mut number = 0;
            samples.kept.retain(|_| {
                number += 1;
                number % 2 == 0
            });
            samples.stride *= 2;
        }
        samples.kept.push(given.to_vec());
    }
}

impl Dictionaries {
    /// Returns the dictionary for a run under this codec, which may carry blocks of one that uses
    /// `base`.
    pub fn begin(&self, codec: Codec, base: UnderDictionary) -> UnderDictionary {
        if codec != Codec::UNDER_DICTIONARY {
            return base;
        }
        let mut learned = self.0.lock().unwrap();
        let samples = learned.may_be_due().then(Box::default);
        let chosen = match base.chosen {
            Some(base) => Some(learned.same(base)),
            None => learned.latest.clone(),
        };
        UnderDictionary { chosen, encoder: None, samples }
    }

    /// Returns the tree's dictionary in place of an equal one of a run that is opened, so that
    /// there is only one in memory.
    pub fn share(&self, dictionary: Arc<Dictionary>) -> Arc<Dictionary> {
        let chosen = Chosen { dictionary, saves: 1.0 / SAVES_ONE_IN };
        self.0.lock().unwrap().same(chosen).dictionary
    }

    /// True if this is the dictionary that the tree holds.
    pub fn holds(&self, dictionary: &Arc<Dictionary>) -> bool {
        let learned = self.0.lock().unwrap();
        learned.latest.as_ref().is_some_and(|latest| Arc::ptr_eq(&latest.dictionary, dictionary))
    }

    /// Called when a leaf ends, with its raw and stored bytes. Returns the input of a training, if
    /// one is due now.
    pub fn learn(&self, under: UnderDictionary, row_bytes: u64, bytes: u64) -> Option<Training> {
        if bytes < TRAINING_BYTES_MIN {
            return None;
        }
        let mut learned = self.0.lock().unwrap();
        let latest = learned.latest.as_ref().map(|latest| &latest.dictionary);
        let is_latest = match (latest, under.dictionary()) {
            (Some(latest), Some(its)) => Arc::ptr_eq(latest, its),
            (None, None) => true,
            _ => false,
        };
        // Runs with an older dictionary say nothing about the latest.
        let is_due = is_latest && learned.is_due(bytes as f64 / row_bytes.max(1) as f64);
        let samples = under.samples.filter(|samples| samples.kept.len() >= SAMPLES_MIN)?;
        is_due.then_some(Training { samples: *samples, bytes })
    }

    /// Records the result of a training.
    pub fn learned(&self, found: Found) {
        let mut learned = self.0.lock().unwrap();
        learned.pause = (learned.pause * 2).max(PAUSE);
        (learned.latest, learned.expected_ratio, learned.leaves) = (found.0, None, Some(0));
    }
}

impl Learned {
    /// Returns the latest dictionary, if it equals the given one. A tree that knows none, since the
    /// store was just opened, adopts the given one.
    fn same(&mut self, chosen: Chosen) -> Chosen {
        if self.leaves.is_none() {
            (self.latest, self.leaves) = (Some(chosen.clone()), Some(0));
            self.pause = PAUSE;
        }
        match &self.latest {
            Some(latest) if latest.dictionary == chosen.dictionary => latest.clone(),
            _ => chosen,
        }
    }

    /// True if training may be due at the end of a leaf that starts now.
    fn may_be_due(&self) -> bool {
        self.leaves.is_none_or(|leaves| {
            self.expected_ratio.is_some() && leaves.saturating_add(1) >= self.pause
        })
    }

    /// Counts a leaf with its ratio of stored to raw bytes, and returns whether to train on it.
    fn is_due(&mut self, took: f64) -> bool {
        let Some(leaves) = &mut self.leaves else { return true };
        *leaves = leaves.saturating_add(1);
        match self.expected_ratio {
            None => {
                self.expected_ratio = Some(took);
                false
            }
            Some(expected) => took > expected * 1.1 && *leaves >= self.pause,
        }
    }
}

impl Default for Samples {
    fn default() -> Self {
        Self { kept: Vec::new(), stride: 1, blocks: 0 }
    }
}

/// The input of a training, which takes most of the time that writing a leaf takes, under no lock.
pub(super) struct Training {
    samples: Samples,
    /// Stored bytes of the leaf.
    bytes: u64,
}

/// The result of a training.
pub(super) struct Found(Option<Chosen>);

impl Training {
    /// Trains dictionaries and returns the one that saves most, if any pays.
    pub fn train(self) -> Found {
        let is_judge = |number: usize| number % JUDGES_ONE_IN == JUDGES_ONE_IN - 1;
        let of = |judges: bool| {
            let kept = self.samples.kept.iter().enumerate();
            kept.filter(move |(number, _)| is_judge(*number) == judges).map(|(_, given)| &given[..])
        };
        let mut encoded = Vec::new();
        let mut judge = |under: Option<&DictionaryEncoder>| -> usize {
            let bytes = of(true).map(|given| {
                match Codec::UNDER_DICTIONARY.encode_under(under, given, &mut encoded) {
                    Codec::Raw => given.len(),
                    _ => encoded.len(),
                }
            });
            bytes.sum()
        };
        let longest = train(&of(false).collect::<Vec<_>>(), LENGTHS[0]);
        let plainly = judge(None);
        let (mut chosen, mut most) = (None, self.bytes / SAVED_ONE_IN);
        for length in LENGTHS {
            let start = longest.len().saturating_sub(length);
            if start == 0 && length < LENGTHS[0] {
                continue; // it was tried
            }
            let dictionary = longest.get(start..).unwrap_or_default().to_vec();
            let Some(dictionary) = Dictionary::new(dictionary).map(Arc::new) else { continue };
            let Some(encoder) = DictionaryEncoder::new(dictionary.clone()) else { continue };
            let saves = 1.0 - judge(Some(&encoder)) as f64 / plainly.max(1) as f64;
            let saved = (self.bytes as f64 * saves) as u64;
            let saved = saved.saturating_sub(dictionary.to_disk().len() as u64);
            if saved > most {
                (chosen, most) = (Some(Chosen { dictionary, saves }), saved);
            }
        }
        Found(chosen)
    }
}

#[cfg(test)]
mod tests;
