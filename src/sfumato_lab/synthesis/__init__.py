"""Methods of synthesis to compare with: corrected, charged and published as the product's own."""
