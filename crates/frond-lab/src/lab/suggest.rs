//! Suggestions for an unknown name: the nearest names that exist.

use crate::targets::Failure;

/// Edit distance (Levenshtein) between two names.
fn distance(one: &str, other: &str) -> usize {
    let other: Vec<char> = other.chars().collect();
    let mut row: Vec<usize> = (0..=other.len()).collect();
    for (i, a) in one.chars().enumerate() {
        let mut diagonal = std::mem::replace(&mut row[0], i + 1);
        for (j, &b) in other.iter().enumerate() {
            let changed = diagonal + usize::from(a != b);
            diagonal = row[j + 1];
            row[j + 1] = changed.min(diagonal + 1).min(row[j] + 1);
        }
    }
    row[other.len()]
}

/// The names nearest to this one, at most three, whatever their case. A name is near if it contains
/// this one, or if at most a third of its letters differ.
pub fn nearest<'a>(name: &str, names: &[&'a str]) -> Vec<&'a str> {
    let name = name.to_lowercase();
    let mut all: Vec<(usize, &str)> = names
        .iter()
        .map(|known| {
            let lower = known.to_lowercase();
            let part = !name.is_empty() && lower.contains(&name);
            (if part { 0 } else { distance(&name, &lower) }, *known)
        })
        .filter(|&(far, known)| far <= known.len().max(name.len()) / 3)
        .collect();
    all.sort();
    all.into_iter().take(3).map(|(_, known)| known).collect()
}

/// The error for an unknown `name` of a `kind`: lists the nearest names, or all if none is near.
pub fn unknown(kind: &str, name: &str, names: &[&str]) -> Failure {
    let near = nearest(name, names);
    match near.is_empty() {
        true => Failure(format!("there is no {kind} `{name}`; there are: {}", names.join(", "))),
        false => {
            Failure(format!("there is no {kind} `{name}`; did you mean {}?", near.join(" or ")))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_nearest_names_are_suggested() {
        let names = ["iibench", "insertbench", "innodb", "innodb-8k", "myrocks", "sysbench"];
        assert_eq!(nearest("iibnech", &names), ["iibench"]);
        assert_eq!(nearest("inodb", &names), ["innodb"]);
        assert_eq!(nearest("innodb8k", &names)[0], "innodb-8k");
        assert_eq!(nearest("rocks", &names), ["myrocks"]);
        assert_eq!(nearest("inodb", &["CSV", "InnoDB"]), ["InnoDB"]);
        assert!(nearest("zzz", &names).is_empty());
        assert!(unknown("target", "zzz", &names).0.contains("there are: iibench, "));
    }
}
