//! A hash keeps its fields in the order of their insertion, as small hashes do in Redis. A set is a
//! hash without values.

/// Fields and their values.
#[derive(Clone, Debug, Default)]
pub(super) struct Hash {
    fields: Vec<Field>,
    next: u64,
}

/// The elements of a set.
#[derive(Clone, Debug, Default)]
pub(super) struct Set(pub(super) Hash);

impl Set {
    pub(super) fn len(&self) -> usize {
        self.0.len()
    }
}

#[derive(Clone, Debug)]
pub(super) struct Field {
    /// The cursor by which a scan continues after this field.
    pub(super) number: u64,
    pub(super) name: Vec<u8>,
    pub(super) value: Vec<u8>,
    /// The expiry time of the field, in milliseconds since 1970.
    pub(super) ends: Option<i64>,
}

impl Field {
    fn is_over(&self, now: i64) -> bool {
        self.ends.is_some_and(|ends| now > ends)
    }
}

impl Hash {
    pub(super) fn value(&self, name: &[u8]) -> Option<&Vec<u8>> {
        self.fields.iter().find(|field| field.name == name).map(|field| &field.value)
    }

    /// Sets a field without an expiry time. Returns whether the field is new.
    pub(super) fn set(&mut self, name: &[u8], value: Vec<u8>) -> bool {
        if let Some(field) = self.fields.iter_mut().find(|field| field.name == name) {
            (field.value, field.ends) = (value, None);
            return false;
        }
        self.next += 1;
        self.fields.push(Field { number: self.next, name: name.to_vec(), value, ends: None });
        true
    }

    /// Sets the value of a field. The field keeps its expiry time.
    pub(super) fn update(&mut self, name: &[u8], value: Vec<u8>) {
        match self.fields.iter_mut().find(|field| field.name == name) {
            Some(field) => field.value = value,
            None => {
                self.set(name, value);
            }
        }
    }

    /// Sets the expiry time of a field. Returns whether the field exists.
    pub(super) fn end_at(&mut self, name: &[u8], ends: i64) -> bool {
        let field = self.fields.iter_mut().find(|field| field.name == name);
        field.map(|field| field.ends = Some(ends)).is_some()
    }

    /// Returns whether the hash has fields, and all its fields have expired by `now`.
    pub(super) fn is_over(&self, now: i64) -> bool {
        !self.fields.is_empty() && self.fields.iter().all(|field| field.is_over(now))
    }

    /// Removes the fields that have expired by `now`.
    pub(super) fn remove_ended(&mut self, now: i64) {
        self.fields.retain(|field| !field.is_over(now));
    }

    /// Removes a field. Returns whether the field existed.
    pub(super) fn remove(&mut self, name: &[u8]) -> bool {
        let place = self.fields.iter().position(|field| field.name == name);
        place.map(|place| self.fields.remove(place)).is_some()
    }

    pub(super) fn len(&self) -> usize {
        self.fields.len()
    }

    pub(super) fn fields(&self) -> impl Iterator<Item = &Field> {
        self.fields.iter()
    }
}
