//! The slot of a key, and the node of a slot.

use std::collections::BTreeMap;

/// The number of slots of a cluster.
pub(super) const SLOTS: u16 = 16_384;

/// Returns the slot of a key. If the first braces of the key contain a text, only this text counts.
pub(super) fn slot_of(key: &[u8]) -> u16 {
    let tag = key.iter().position(|byte| *byte == b'{').and_then(|open| {
        let rest = &key[open + 1..];
        let close = rest.iter().position(|byte| *byte == b'}').filter(|close| *close > 0)?;
        Some(&rest[..close])
    });
    crc16(tag.unwrap_or(key)) % SLOTS
}

/// Returns the checksum CRC-16/XMODEM, which Redis uses.
fn crc16(bytes: &[u8]) -> u16 {
    bytes.iter().fold(0, |crc, byte| {
        (0..8).fold(crc ^ (u16::from(*byte) << 8), |crc, _| {
            if crc & 0x8000 == 0 { crc << 1 } else { (crc << 1) ^ 0x1021 }
        })
    })
}

/// The node of each slot. The key is the first slot of a range. The range ends before the next key.
/// The first key is 0.
#[derive(Clone, Debug)]
pub(super) struct Owners(BTreeMap<u16, usize>);

impl Owners {
    /// Divides the slots equally among this many nodes.
    pub(super) fn equal(nodes: usize) -> Self {
        let part = usize::from(SLOTS).div_ceil(nodes);
        let firsts = (0..SLOTS).step_by(part);
        Self(firsts.enumerate().map(|(node, first)| (first, node)).collect())
    }

    pub(super) fn of(&self, slot: u16) -> usize {
        self.0.range(..=slot).next_back().map(|(_, node)| *node).unwrap_or_default()
    }

    /// Gives one slot to a node.
    pub(super) fn give(&mut self, slot: u16, node: usize) {
        let before = self.of(slot);
        if slot + 1 < SLOTS {
            self.0.entry(slot + 1).or_insert(before);
        }
        self.0.insert(slot, node);
    }

    /// Gives all slots of a node to another node.
    pub(super) fn give_all(&mut self, from: usize, to: usize) {
        self.0.values_mut().filter(|it| **it == from).for_each(|it| *it = to);
    }

    /// Returns the first and the last slot of each range, and its node.
    pub(super) fn ranges(&self) -> Vec<((u16, u16), usize)> {
        let mut ranges: Vec<((u16, u16), usize)> = Vec::new();
        let lasts = self.0.keys().skip(1).copied().chain([SLOTS]).map(|next| next - 1);
        for ((first, node), last) in self.0.iter().zip(lasts) {
            match ranges.last_mut() {
                Some(((_, end), before)) if before == node => *end = last,
                _ => ranges.push(((*first, last), *node)),
            }
        }
        ranges
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slots_move_to_a_node_one_by_one_or_all_at_once() {
        let mut owners = Owners::equal(3);
        assert_eq!(owners.ranges(), [((0, 5_461), 0), ((5_462, 10_923), 1), ((10_924, 16_383), 2)]);
        for (slot, node) in [(0, 1), (7, 1), (8, 2), (7, 2), (16_383, 0), (8, 0), (7, 0), (0, 0)] {
            owners.give(slot, node);
            assert_eq!(owners.of(slot), node);
        }
        let ranges = [((0, 5_461), 0), ((5_462, 10_923), 1), ((10_924, 16_382), 2)];
        assert_eq!(owners.ranges(), [&ranges[..], &[((16_383, 16_383), 0)]].concat());
        owners.give_all(0, 4);
        assert_eq!([0, 5_461, 5_462, 16_383].map(|slot| owners.of(slot)), [4, 4, 1, 4]);
    }

    #[test]
    fn keys_with_one_tag_share_a_slot() {
        assert_eq!((slot_of(b"123456789"), slot_of(b"foo")), (12_739, 12_182));
        assert_eq!(slot_of(b"{foo}.bar"), slot_of(b"foo"));
        assert_ne!(slot_of(b"{}foo"), slot_of(b"foo"));
    }
}
