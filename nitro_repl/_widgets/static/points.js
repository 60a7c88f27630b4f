// The points of one curve, in arrays that grow, and their running mean.

class Points {
  constructor(about) {
    this.about = about;
    this.count = 0;
    this.x = new Float64Array(256);
    this.y = new Float64Array(256);
    this.weight = 0;
    this.mean = null;
    this.meant = 0;
  }

  push(x, y) {
    const needed = this.count + x.length;
    if (needed > this.x.length) {
      let room = this.x.length;
      while (room < needed) room *= 2;
      this.x = grown(this.x, room, this.count);
      this.y = grown(this.y, room, this.count);
    }
    this.x.set(x, this.count);
    this.y.set(y, this.count);
    this.count = needed;
  }

  // The exponential mean with a weight of what was before, 0 to 1.
  smooth(weight) {
    if (!weight) return this.y;
    if (weight !== this.weight || !this.mean || this.mean.length < this.y.length) {
      this.weight = weight;
      this.mean = new Float64Array(this.y.length);
      this.meant = 0;
    }
    for (let i = this.meant; i < this.count; i++) {
      const before = i ? this.mean[i - 1] : NaN;
      const now = this.y[i];
      if (!Number.isFinite(now)) this.mean[i] = before;
      else if (!Number.isFinite(before)) this.mean[i] = now;
      else this.mean[i] = weight * before + (1 - weight) * now;
    }
    this.meant = this.count;
    return this.mean;
  }

  // Index of the first point whose step is at least x.
  from(x) {
    let low = 0;
    let high = this.count;
    while (low < high) {
      const middle = (low + high) >> 1;
      if (this.x[middle] < x) low = middle + 1;
      else high = middle;
    }
    return low;
  }

  // Index of the point with a value nearest to x, -1 if there is none.
  nearest(x) {
    const at = this.from(x);
    let left = at - 1;
    let right = at;
    while (left >= 0 && !Number.isFinite(this.y[left])) left--;
    while (right < this.count && !Number.isFinite(this.y[right])) right++;
    if (right >= this.count) return left;
    if (left < 0) return right;
    return x - this.x[left] <= this.x[right] - x ? left : right;
  }
}

function grown(array, room, count) {
  const larger = new Float64Array(room);
  larger.set(array.subarray(0, count));
  return larger;
}

// A copy, since what arrives need not be aligned.
function numbersOf(buffer) {
  const start = buffer.byteOffset ?? 0;
  const whole = buffer.buffer ?? buffer;
  return new Float64Array(whole.slice(start, start + buffer.byteLength));
}
