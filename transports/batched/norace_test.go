//go:build !race

package batched

const raceDetector = false
