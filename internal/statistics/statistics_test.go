package statistics

import (
	"math"
	"math/rand/v2"
	"testing"
)

// A rate's interval has the published values, and contains only rates.
func TestRateInterval(t *testing.T) {
	for _, tt := range []struct {
		k, n      int64
		low, high float64
	}{
		{0, 0, 0, 1}, {0, 10, 0, 0.2775}, {10, 10, 0.7225, 1}, {5, 10, 0.2366, 0.7634}, {1, 100, 0.0018, 0.0545}, {15, 148, 0.0624, 0.1605}, {11, 10, 0.7225, 1},
	} {
		got := RateInterval(tt.k, tt.n)
		if math.Abs(got.Low-tt.low) > 5e-5 || math.Abs(got.High-tt.high) > 5e-5 {
			t.Errorf("RateInterval(%d, %d) = %.4f, want %.4f to %.4f", tt.k, tt.n, got, tt.low, tt.high)
		}
	}
}

// The quantiles match Student's tables.
func TestTQuantile(t *testing.T) {
	for freedom, want := range map[int64]float64{1: 12.7062, 4: 2.7764, 5: 2.5706, 7: 2.3646, 10: 2.2281, 30: 2.0423, 100: 1.9840, 1_000_000: 1.95996} {
		if got := tQuantile(freedom); math.Abs(got/want-1) > 1e-3 {
			t.Errorf("tQuantile(%d) = %.4f, want %.4f", freedom, got, want)
		}
	}
}

// A mean's interval contains the true mean in about 95 samples out of 100, also in small ones.
func TestMeanInterval(t *testing.T) {
	if _, ok := MeanInterval(1, 5, 25); ok {
		t.Error("one value has an interval")
	}
	if got, ok := MeanInterval(3, 0.3, 0.03); !ok || math.Abs(got.Low-0.1) > 1e-6 || math.Abs(got.High-0.1) > 1e-6 {
		t.Errorf("equal values: %v, %v", got, ok)
	}
	random := rand.New(rand.NewPCG(1, 2))
	for _, n := range []int{2, 5, 30} {
		const samples = 4000
		inside := 0
		for range samples {
			var sum, squares float64
			for range n {
				x := 7 + 3*random.NormFloat64()
				sum, squares = sum+x, squares+x*x
			}
			if i, _ := MeanInterval(int64(n), sum, squares); i.Low <= 7 && 7 <= i.High {
				inside++
			}
		}
		if share := float64(inside) / samples; share < 0.94 || share > 0.96 {
			t.Errorf("%d values: the mean is inside in %.1f %%", n, 100*share)
		}
	}
}

// McNemar's exact test: values from the binomial distribution.
func TestMcNemar(t *testing.T) {
	for _, test := range []struct {
		b, c int64
		want float64
	}{{0, 0, 1}, {1, 0, 1}, {5, 0, 0.0625}, {0, 5, 0.0625}, {10, 2, 0.038574}, {6, 6, 1}, {1000, 0, 0}, {-1, 3, 1}} {
		if got := McNemar(test.b, test.c); math.Abs(got-test.want) > 1e-6 {
			t.Errorf("McNemar(%d, %d) = %v, want %v", test.b, test.c, got, test.want)
		}
	}
}
