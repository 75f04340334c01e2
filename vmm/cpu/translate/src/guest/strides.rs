//! The movement of groups' addresses from round to round of a loop, and families of groups that move
//! alike.
//!
//! A stride exists only if it is the same in each round: a constant, or a register that the run does
//! not change. `emit/guarded_loop` requests families, to check the first and the last round of a
//! guarded loop instead of each round.

use iced_x86::Register;

use crate::guest::groups::{AccessGroup, GroupPlan};
use crate::guest::symbols::{Value, ZERO};
use crate::guest::terms::Terms;

/// The largest number of registers that are added to compute a group's first address.
const MAX_ADDED: usize = 4;

/// The movement of a value in a round: a number of bytes, and a multiple of a register that does not
/// change.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Stride {
    pub bytes: i64,
    pub register: Option<(u8, i64)>,
}

impl Stride {
    /// This stride, `times` times.
    fn by(self, times: i64) -> Option<Self> {
        let register = match self.register {
            Some((number, own)) => Some((number, own.checked_mul(times)?)),
            None => None,
        };
        Some(Self {
            bytes: self.bytes.checked_mul(times)?,
            register,
        })
    }

    /// The sum of both; `None` if it would have two registers.
    fn and(self, other: Self) -> Option<Self> {
        let register = match (self.register, other.register) {
            (Some((a, own)), Some((b, more))) if a == b => Some((a, own.checked_add(more)?)),
            (Some(_), Some(_)) => return None,
            (one, other) => one.or(other),
        };
        Some(Self {
            bytes: self.bytes.checked_add(other.bytes)?,
            register: register.filter(|&(_, times)| times != 0),
        })
    }
}

/// Groups of the same shape that move alike, and whose addresses differ only by multiples of a
/// register.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Family {
    /// The reference group.
    pub lead: usize,
    pub stride: Stride,
    /// The register, and the least and the largest multiple that is added to the lead's address.
    pub apart: Option<(u8, i64, i64)>,
}

impl Family {
    /// The register that is added to the lead's address in `rounds` rounds, with its least and its
    /// largest multiple.
    pub(crate) fn reach(&self, rounds: i64) -> Option<(u8, i64, i64)> {
        let (number, from, to) = match (self.apart, self.stride.register) {
            (Some(apart), _) => apart,
            (None, Some((number, _))) => (number, 0, 0),
            (None, None) => return None,
        };
        let moved = self.stride.register.map_or(0, |(_, times)| times) * (rounds - 1);
        Some((number, from + moved.min(0), to + moved.max(0)))
    }
}

impl GroupPlan {
    /// The groups with a known stride, in families that `fit`, and for each group its family.
    pub(crate) fn families(
        &self,
        fit: impl Fn(&Family) -> bool,
    ) -> (Vec<Family>, Vec<Option<usize>>) {
        let mut families: Vec<Family> = Vec::new();
        let mut of = Vec::with_capacity(self.groups.len());
        for group in 0..self.groups.len() {
            let Some(stride) = self.stride(group) else {
                of.push(None);
                continue;
            };
            let mut each = families.iter().enumerate();
            let joined = each.find_map(|(number, family)| {
                let joined = self.joined(family, group, stride)?;
                fit(&joined).then_some((number, joined))
            });
            if let Some((number, joined)) = joined {
                families[number] = joined;
                of.push(Some(number));
                continue;
            }
            let own = Family {
                lead: group,
                stride,
                apart: None,
            };
            let begins = self.is_added_up(group) && fit(&own);
            of.push(begins.then_some(families.len()));
            families.extend(begins.then_some(own));
        }
        (families, of)
    }

    /// The stride of the address of group `group`; `None` if it is not the same in each round, or
    /// unknown at the beginning.
    pub(crate) fn stride(&self, group: usize) -> Option<Stride> {
        let AccessGroup { key, scattered, .. } = self.groups[group];
        if scattered {
            return None;
        }
        let base = match key.base {
            Some(symbol) => self.moves(symbol)?,
            None => Stride::default(),
        };
        let index = match key.index {
            Some((ZERO, _)) => return None,
            Some((symbol, scale)) => self.moves(symbol)?.by(i64::from(scale))?,
            None => Stride::default(),
        };
        base.and(index)
    }

    /// True if the value `symbol` is the same in each round.
    pub(crate) fn stays(&self, symbol: u32) -> bool {
        self.moves(symbol) == Some(Stride::default())
    }

    /// The movement of the value `symbol` from the first round to the second.
    fn moves(&self, symbol: u32) -> Option<Stride> {
        let mut whole = Stride::default();
        for &(number, times) in self.symbols.terms_of(symbol)?.each() {
            whole = whole.and(self.register_moves(number)?.by(times)?)?;
        }
        Some(whole)
    }

    /// The movement of a register's value from the beginning to the end.
    fn register_moves(&self, number: u8) -> Option<Stride> {
        let own = Terms::register(number);
        let Value { symbol, offset } = *self.symbols.after.get(usize::from(number))?;
        let register = match *self.symbols.terms_of(symbol)?.and(&own, -1)?.each() {
            [] => None,
            [(other, times)] if self.is_kept(other) => Some((other, times)),
            _ => return None,
        };
        Some(Stride {
            bytes: offset,
            register,
        })
    }

    /// True if a register has the same value at the end as at the beginning.
    fn is_kept(&self, number: u8) -> bool {
        let symbol = u32::from(number);
        self.symbols.after[usize::from(number)] == Value { symbol, offset: 0 }
    }

    /// `family` extended by `group`, which has stride `stride`, if their addresses differ only by a
    /// multiple of a register.
    fn joined(&self, family: &Family, group: usize, stride: Stride) -> Option<Family> {
        let (lead, one) = (self.groups[family.lead], self.groups[group]);
        let shape = |group: AccessGroup| (group.low, group.high, group.write, group.key.segment);
        let alike = stride == family.stride
            && shape(lead) == shape(one)
            && one.key.segment == Register::None
            && lead.key.page.is_none()
            && one.key.page.is_none();
        if !alike {
            return None;
        }
        let lead = self.all_terms(family.lead)?;
        let &[(register, times)] = self.all_terms(group)?.and(&lead, -1)?.each() else {
            return None;
        };
        // Their difference is constant, since they move alike.
        let known = family.reach(1).map(|(known, ..)| known);
        let fits = known.is_none_or(|known| known == register);
        let (_, from, to) = family.apart.unwrap_or((register, 0, 0));
        fits.then(|| Family {
            apart: Some((register, from.min(times), to.max(times))),
            ..family.clone()
        })
    }

    /// The initial register values whose sum is the address of `group`, except for a constant.
    fn all_terms(&self, group: usize) -> Option<Terms> {
        let key = self.groups[group].key;
        let base = match key.base {
            Some(symbol) => self.symbols.terms_of(symbol)?,
            None => Terms::default(),
        };
        match key.index {
            Some((symbol, scale)) => base.and(&self.symbols.terms_of(symbol)?, i64::from(scale)),
            None => Some(base),
        }
    }

    /// True if the address of `group` is a sum of few initial register values.
    fn is_added_up(&self, group: usize) -> bool {
        let key = self.groups[group].key;
        let terms = match key.base {
            Some(symbol) => self.symbols.terms_of(symbol),
            None => Some(Terms::default()),
        };
        let few = |terms: Terms| terms.repeated().count() <= MAX_ADDED;
        key.index.is_none_or(|(symbol, _)| symbol < ZERO) && terms.is_some_and(few)
    }
}

#[cfg(test)]
mod tests {
    use iced_x86::code_asm::*;

    use super::*;
    use crate::guest::groups::planned;

    const RCX: u8 = 1;
    const RDX: u8 = 2;

    fn bytes(bytes: i64) -> Option<Stride> {
        let register = None;
        Some(Stride { bytes, register })
    }

    #[test]
    fn a_sum_of_registers_moves_as_they_do_together() {
        let plan = planned(|a| {
            a.mov(rdx, r11).unwrap();
            a.mov(rax, qword_ptr(rdx)).unwrap();
            a.add(rdx, rcx).unwrap();
            a.mov(rax, qword_ptr(rdx)).unwrap();
            a.add(rdx, rcx).unwrap();
            a.mov(rax, qword_ptr(rdx + 8)).unwrap();
            a.add(r11, 8).unwrap();
            a.add(rcx, 1).unwrap();
        });
        let strides: Vec<_> = (0..3).map(|group| plan.stride(group)).collect();
        assert_eq!(strides, [bytes(8), bytes(9), bytes(10)]);
        let base = plan.groups[2].key.base.unwrap();
        let terms = plan.symbols.terms_of(base).unwrap();
        assert_eq!(terms.each(), [(RCX, 2), (11, 1)]);
        assert!(!plan.stays(base));
        assert_eq!(plan.families(|_| true).0.len(), 3, "RCX does not stay");
    }

    #[test]
    fn what_lies_apart_by_a_register_that_stays_is_a_family() {
        let plan = planned(|a| {
            for _ in 0..4 {
                a.mov(byte_ptr(rdi + rax), 1).unwrap();
                a.add(rax, rdx).unwrap();
            }
            a.mov(rbx, qword_ptr(rsi + 8)).unwrap();
            a.add(rsi, rdx).unwrap();
            a.mov(byte_ptr(rdi), 1).unwrap();
        });
        let (families, of) = plan.families(|_| true);
        let expected: Vec<_> = [0, 0, 0, 0, 1, 2].map(Some).into();
        assert_eq!(of, expected);
        let walking = |times| Stride {
            bytes: 0,
            register: Some((RDX, times)),
        };
        let shape = |family: &Family| (family.lead, family.stride, family.apart);
        assert_eq!(shape(&families[0]), (0, walking(4), Some((RDX, 0, 3))));
        assert_eq!(shape(&families[1]), (4, walking(1), None));
        assert_eq!(families[0].reach(3), Some((RDX, 0, 11)));
        assert_eq!(families[1].reach(3), Some((RDX, 0, 2)));
        assert_eq!(families[2].reach(3), None);
        let pairs = |family: &Family| family.apart.is_none_or(|(_, from, to)| to - from < 2);
        let (families, of) = plan.families(pairs);
        // The first address of another group would have an index that is a sum.
        let expected = [Some(0), Some(0), None, None, Some(1), Some(2)];
        assert_eq!((families.len(), &of[..]), (3, &expected[..]));
    }

    #[test]
    fn a_family_reaches_to_both_sides_of_its_lead() {
        let plan = planned(|a| {
            a.mov(rax, qword_ptr(rsi + rcx)).unwrap();
            a.mov(rax, qword_ptr(rsi)).unwrap();
            a.mov(rax, qword_ptr(rsi + rcx * 4)).unwrap();
            a.add(rdx, rax).unwrap();
        });
        let (families, _) = plan.families(|_| true);
        assert_eq!(families.len(), 1);
        assert_eq!(families[0].reach(9), Some((RCX, -1, 3)));
    }

    #[test]
    fn what_differs_in_another_way_is_another_family() {
        let others: [fn(&mut CodeAssembler); 6] = [
            |a| a.mov(eax, dword_ptr(rsi + rcx)).unwrap(),
            |a| a.mov(qword_ptr(rsi + rcx), rax).unwrap(),
            |a| a.mov(rax, qword_ptr(rsi + rcx + 8)).unwrap(),
            |a| a.mov(rax, qword_ptr(rsi + r8)).unwrap(),
            |a| a.mov(rax, qword_ptr(rdi + rcx)).unwrap(),
            |a| a.mov(rax, qword_ptr(rsi + rdx)).unwrap(),
        ];
        for (number, other) in others.into_iter().enumerate() {
            let plan = planned(|a| {
                a.mov(rax, qword_ptr(rsi)).unwrap();
                a.mov(rax, qword_ptr(rsi + rcx * 2)).unwrap();
                other(a);
                a.add(rsi, 8).unwrap();
                a.add(r8, 8).unwrap();
                a.add(rbx, rbx).unwrap();
            });
            let (_, of) = plan.families(|_| true);
            assert_eq!(of, [Some(0), Some(0), Some(1)], "other {number}");
        }
    }

    #[test]
    fn a_register_that_changes_is_no_stride() {
        let changes: [fn(&mut CodeAssembler); 3] = [
            |a| a.add(rdx, 8).unwrap(),
            |a| a.mov(rdx, qword_ptr(rdi)).unwrap(),
            |a| a.add(rax, rsi).unwrap(),
        ];
        for change in changes {
            let plan = planned(|a| {
                a.mov(byte_ptr(rax), 1).unwrap();
                a.add(rax, rdx).unwrap();
                change(a);
            });
            assert_eq!(plan.stride(0), None);
        }
    }

    #[test]
    fn a_sum_that_doubles_has_an_end() {
        let plan = planned(|a| {
            for _ in 0..60 {
                a.add(rax, rax).unwrap();
            }
            a.mov(rbx, qword_ptr(rax)).unwrap();
            a.add(rcx, rax).unwrap();
        });
        assert_eq!(plan.stride(0), None);
    }
}
