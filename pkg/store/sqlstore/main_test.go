package sqlstore

import (
	"flag"
	"os"
	"strconv"
	"testing"

	"go.uber.org/goleak"
)

// parallelTests is how many tests that wait for deadlines run at once, also on a machine with two
// processors.
const parallelTests = 6

func TestMain(m *testing.M) {
	if file := os.Getenv(childDatabase); file != "" {
		os.Exit(appendForever(file))
	}
	flag.Parse()
	if n := flag.Lookup("test.parallel").Value.(flag.Getter).Get().(int); n < parallelTests {
		if err := flag.Set("test.parallel", strconv.Itoa(parallelTests)); err != nil {
			panic(err)
		}
	}
	goleak.VerifyTestMain(m)
}
