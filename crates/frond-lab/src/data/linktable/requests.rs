//! The kinds of LinkBench's requests, and their shares.

/// A kind of request.
#[allow(missing_docs)] // the names say it
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Request {
    AddLink,
    DeleteLink,
    UpdateLink,
    CountLink,
    MultigetLink,
    GetLinksList,
    AddNode,
    UpdateNode,
    DeleteNode,
    GetNode,
}

/// Shares of the requests, in units of 10⁻⁷ percent.
pub const SHARES: [(Request, u32); 10] = [
    (Request::AddLink, 89_886_601),
    (Request::DeleteLink, 29_907_664),
    (Request::UpdateLink, 80_122_125),
    (Request::CountLink, 48_863_567),
    (Request::MultigetLink, 5_261_142),
    (Request::GetLinksList, 507_119_145),
    (Request::AddNode, 25_732_789),
    (Request::UpdateNode, 73_664_370),
    (Request::DeleteNode, 10_115_914),
    (Request::GetNode, 129_326_683),
];

#[cfg(test)]
mod tests {
    use super::SHARES;

    #[test]
    fn shares_add_up_to_all_requests() {
        assert_eq!(SHARES.iter().map(|(_, share)| share).sum::<u32>(), 1_000_000_000);
    }
}
