"""How good the confidence is, against left-right consistency, and what the filter of point clouds does.

    python benchmarks/confidence.py --benchmark middlebury-q=M3 --benchmark kitti2015=KITTI ... [--model NAME]

predicts both views of all pairs and prints, over all pixels with ground truth together: the expected calibration error
(ECE), the area between the sparsification curve and the perfect one (AUSE) of the confidence and of left-right
consistency (the less the two views differ, the better), and the error of the more confident half relative to all. With
--flying, also the share of points farther than 2 % of their depth from any surface, before and after the default
filter, how many of the others are kept, and the ECE of the points' confidence; for rendered pairs, whose ground truth
is dense.
"""

import argparse
import dataclasses
import sys

import numpy as np
import torch
from tqdm import tqdm

import linstereo
from linstereo.data.datasets.naming import parse_dataset
from linstereo.evaluation.confidence_metrics import (
    area_under_sparsification_error,
    expected_calibration_error,
    reliability,
    right_disparities,
    sparsification,
    top_half_error,
)
from linstereo.evaluation.flying_points import flying_points
from linstereo.evaluation.runner import open_benchmark
from linstereo.geometry.depth import SHARE
from linstereo.geometry.occlusion import left_right_difference


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--benchmark", action="append", required=True, metavar="NAME=ROOT", help="as in evaluate")
    parser.add_argument("--model", help="checkpoint (default: the bundled model)")
    parser.add_argument("--limit", type=int, metavar="N", help="the first N pairs of each dataset only")
    parser.add_argument("--flying", action="store_true", help="count flying points too")
    parser.add_argument("--threads", type=int, default=2)
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    predictor = linstereo.load(options.model)
    if not predictor.gives_confidence:
        sys.exit(f"{predictor.name} gives no confidence; train it with linstereo confidence")
    named = [parse_dataset(text, what="the benchmark") for text in options.benchmark]
    datasets = [open_benchmark(name.name, name.root, split=name.split).dataset for name in named]
    places = [(data, i) for data in datasets for i in range(len(data))[: options.limit]]
    errors, confidences, consistencies, rights = [], [], [], []
    of_depths, right_depths = [], []
    flying, good, kept_flying, kept_good = 0, 0, 0, 0
    for dataset, index in tqdm(places, unit="pair", disable=None):
        sample = dataset[index]
        assert sample.disparity is not None
        assert sample.valid is not None
        result = predictor.predict(sample.left, sample.right, calibration=sample.calibration, occlusion=True)
        assert result.confidence is not None
        assert result.depth_confidence is not None
        assert result.right_disparity is not None
        known = sample.valid
        truth, found = sample.disparity[known], result.disparity[known]
        errors.append(np.abs(found - truth))
        rights.append(right_disparities(found, truth))
        confidences.append(result.confidence[known])
        consistencies.append(-np.minimum(left_right_difference(result.disparity, result.right_disparity)[known], 1e6))
        if options.flying and sample.calibration is not None:
            counted = known & (result.disparity >= 1)
            true = np.where(known, sample.disparity, 0)
            flies = flying_points(result.disparity, true, sample.calibration, counted=counted)
            kept = counted & dataclasses.replace(result, right_disparity=None).reliable()  # as without --occlusion
            of_depths.append(result.depth_confidence[counted])
            allowed = SHARE * (true + sample.calibration.doffs)
            right_depths.append((np.abs(result.disparity - true) < allowed)[counted])
            flying += int((flies & counted).sum())
            good += int((~flies & counted).sum())
            kept_flying += int((flies & kept).sum())
            kept_good += int((~flies & kept).sum())
    error = np.concatenate(errors)
    ece = expected_calibration_error(reliability(np.concatenate(confidences), np.concatenate(rights)))
    print(f"{len(places)} pairs, {error.size:,} pixels, EPE {error.mean():.3f} px, ECE {ece:.4f}")
    for name, order in (("confidence", confidences), ("left-right consistency", consistencies)):
        curve = sparsification(error, np.concatenate(order))
        area, half = area_under_sparsification_error(curve), top_half_error(curve)
        print(f"{name}: AUSE {area:.3f}, error of the more confident half {half:.3f} of all")
    if flying:
        before, after = flying / (flying + good), kept_flying / max(kept_flying + kept_good, 1)
        others = 100 * kept_good / good
        ece = expected_calibration_error(reliability(np.concatenate(of_depths), np.concatenate(right_depths)))
        print(f"confidence of depths: ECE {ece:.4f}")
        print(f"flying points: {100 * before:.2f} -> {100 * after:.2f} %; {others:.1f} % of the others kept")


if __name__ == "__main__":
    main()
