package buffers

import (
	"bytes"
	"errors"
	"strings"
	"testing"
	"testing/iotest"
)

// ReadAll reads everything, into a buffer that grows.
func TestReadAll(t *testing.T) {
	for _, n := range []int{0, 1, 4096, 10_000, 200_000} {
		b := Take()
		if err := ReadAll(b, iotest.HalfReader(strings.NewReader(strings.Repeat("x", n)))); err != nil || !bytes.Equal(*b, bytes.Repeat([]byte("x"), n)) {
			t.Errorf("%d bytes: read %d, %v", n, len(*b), err)
		}
		Return(b)
		if again := Take(); len(*again) != 0 || cap(*again) > maxPooled {
			t.Errorf("a shared buffer has %d bytes, capacity %d", len(*again), cap(*again))
		}
	}
	broken := errors.New("broken")
	if err := ReadAll(Take(), iotest.ErrReader(broken)); !errors.Is(err, broken) {
		t.Errorf("error %v", err)
	}
}
